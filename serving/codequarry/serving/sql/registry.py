"""Registry of published versions: ``manifests``, ``manifest_sources`` and ``manifest_indexes`` of a session."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import EncoderEntry, Manifest
from codequarry.schemas.catalog.session_tables import MANIFEST_INDEXES, MANIFEST_SOURCES, MANIFESTS
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.times import build_time
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.files.version_order import ordered_versions, sequence_of


def read_registry(root: BundleRoot) -> dict[str, pa.Table]:
    """Read the rows of ``manifests``, ``manifest_sources`` and ``manifest_indexes``, oldest version first.

    A version with an unreadable manifest has a row with the reason, and neither sources nor indexes.
    """
    try:
        current = root.read_current().version
    except UnavailableError:
        current = ""
    versions: list[dict[str, Any]] = []
    sources: list[dict[str, Any]] = []
    indexes: list[dict[str, Any]] = []
    for name in ordered_versions(root):
        paths = root.version(name)
        row = {"version": name, "current": name == current, "created": _parse_build_time(name), "path": str(paths.path)}
        row["sequence"] = sequence_of(root, name)
        try:
            manifest = read_manifest(paths)
        except (UnavailableError, OSError) as error:
            versions.append({**_UNREADABLE, **row, "problem": str(getattr(error, "message", error))})
            continue
        versions.append({**row, **_facts(manifest)})
        sources += [
            {
                **{field: getattr(each, field) for field in MANIFEST_SOURCES.names if hasattr(each, field)},
                "version": name,
                "repo": each.name,
                "skipped_files": sum(each.skipped.values()),
            }
            for each in manifest.sources
        ]
        indexes += [{"version": name, **index} for index in _indexes(manifest)]
    return {
        "manifests": pa.Table.from_pylist(versions, MANIFESTS),
        "manifest_sources": pa.Table.from_pylist(sources, MANIFEST_SOURCES),
        "manifest_indexes": pa.Table.from_pylist(indexes, MANIFEST_INDEXES),
    }


def _indexes(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Yield the rows of a version's indexes, without its name."""
    chunks = manifest.counts.chunks
    yield {"channel": "bm25", "documents": chunks, **_encoder(None), "variant": ""}
    for leg in manifest.legs:
        yield {"channel": leg.channel, "documents": chunks, **_encoder(leg.encoder), "variant": leg.faiss.factory}
    if (warp := manifest.warp) is not None:
        yield {"channel": "warp", "documents": warp.documents, **_encoder(warp.encoder), "variant": warp.profile}
    if (splade := manifest.splade) is not None:
        yield {"channel": "splade", "documents": splade.documents, **_encoder(splade.encoder), "variant": ""}


def _encoder(encoder: EncoderEntry | None) -> dict[str, Any]:
    if encoder is None:
        return {"encoder": "", "encoder_fingerprint": "", "dim": 0}
    return {"encoder": encoder.name, "encoder_fingerprint": encoder.fingerprint, "dim": encoder.dim}


def _facts(manifest: Manifest) -> dict[str, Any]:
    return {
        "format_version": manifest.format_version,
        "digest": manifest.digest,
        "tier": manifest.tier,
        "repositories": len(manifest.sources),
        "files": manifest.counts.files,
        "skipped_files": manifest.counts.skipped_files,
        "chunks": manifest.counts.chunks,
        "size_bytes": sum(entry.size_bytes for entry in manifest.files),
        "encoder": manifest.encoder.name,
        "encoder_fingerprint": manifest.encoder.fingerprint,
        "dim": manifest.encoder.dim,
        "faiss_factory": manifest.faiss.factory,
        "settings_sha256": manifest.settings_sha256,
        "problem": "",
    }


_UNREADABLE: dict[str, Any] = {
    field.name: "" if pa.types.is_string(field.type) else 0 for field in MANIFESTS if field.name != "current"
}


def _parse_build_time(version: str) -> datetime | None:
    """Return the build time from the version's name; None when its digits are not a date.

    The name is available even when the manifest is damaged.
    """
    moment = build_time(version)
    return None if moment is None else moment.replace(tzinfo=None)
