"""Registry of published versions, as the tables ``manifests`` and ``manifest_sources`` of an opened catalog."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.registry import MANIFEST_SOURCES, MANIFESTS
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.times import build_time
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.files.version_order import ordered_versions, sequence_of


def read_registry(root: BundleRoot) -> tuple[pa.Table, pa.Table]:
    """Read the rows of ``manifests`` and of ``manifest_sources``, oldest version first.

    A version with an unreadable manifest has a row with the reason, and no sources.
    """
    try:
        current = root.read_current().version
    except UnavailableError:
        current = ""
    versions: list[dict[str, Any]] = []
    sources: list[dict[str, Any]] = []
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
    return pa.Table.from_pylist(versions, MANIFESTS), pa.Table.from_pylist(sources, MANIFEST_SOURCES)


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
