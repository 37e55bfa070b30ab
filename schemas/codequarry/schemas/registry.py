"""The registry of published versions, as the tables ``manifests`` and ``manifest_sources`` of an opened catalog."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.integrity import read_manifest
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.tables import described_field

MANIFESTS = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("current", pa.bool_(), "True for the one that CURRENT names."),
        described_field("created", pa.timestamp("s"), "When it was built, UTC."),
        described_field("format_version", pa.int32(), "Format of the bundle; 0 when the manifest cannot be read."),
        described_field("digest", pa.string(), "Digest of its contents: equal, equal versions."),
        described_field("tier", pa.string(), "fast or standard."),
        described_field("repositories", pa.int32(), "Repositories."),
        described_field("files", pa.int64(), "Indexed files."),
        described_field("skipped_files", pa.int64(), "Files left out."),
        described_field("chunks", pa.int64(), "Chunks."),
        described_field("size_bytes", pa.int64(), "Bytes of its files, shared ones included."),
        described_field("encoder", pa.string(), "Name of the first dense leg's encoder."),
        described_field("encoder_fingerprint", pa.string(), "Its fingerprint."),
        described_field("dim", pa.int32(), "Dimensions of its vectors."),
        described_field("faiss_factory", pa.string(), "FAISS factory of the first dense leg."),
        described_field("settings_sha256", pa.string(), "Hash of the settings that decide the contents."),
        described_field("path", pa.string(), "Folder of the version."),
        described_field("problem", pa.string(), "Why its manifest cannot be read; empty when it can."),
    ]
)
MANIFEST_SOURCES = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("repo", pa.string(), "Name of the repository."),
        described_field("url", pa.string(), "Where it was fetched from; empty for a local path."),
        described_field("ref", pa.string(), "Branch, tag or commit that was asked for; empty when none was."),
        described_field("commit", pa.string(), "Commit id; empty for a directory without git."),
        described_field("dirty", pa.bool_(), "True when the indexed files differ from that commit, or there is none."),
        described_field("tree_sha256", pa.string(), "Digest over paths and contents of the indexed files."),
        described_field("files", pa.int64(), "Indexed files."),
        described_field("chunks", pa.int64(), "Their chunks."),
        described_field("skipped_files", pa.int64(), "Skipped files."),
    ]
)


def read_registry(root: BundleRoot) -> tuple[pa.Table, pa.Table]:
    """Rows of ``manifests`` and of ``manifest_sources``, oldest version first.

    A version whose manifest cannot be read has a row that says why, and no sources.
    """
    try:
        current = root.read_current().version
    except UnavailableError:
        current = ""
    versions: list[dict[str, Any]] = []
    sources: list[dict[str, Any]] = []
    for name in root.version_names():
        paths = root.version(name)
        row = {"version": name, "current": name == current, "created": _built(name), "path": str(paths.path)}
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


def _built(version: str) -> datetime:
    """By its name, which every version has, whatever became of its manifest."""
    return datetime.strptime(version[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).replace(tzinfo=None)
