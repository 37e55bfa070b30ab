"""Tables of all versions of a bundle, of their sources and of their indexes."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

import pyarrow as pa

from codequarry.schemas.bundle.tables import described_field

MANIFESTS = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("current", pa.bool_(), "True for the one that CURRENT names."),
        described_field("created", pa.timestamp("s"), "When it was built, UTC; empty where its name holds no date."),
        described_field("sequence", pa.int64(), "Grows with every publish, also within one second."),
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


MANIFEST_INDEXES = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("channel", pa.string(), "Channel that answers from it: bm25, faiss, faiss2, warp or splade."),
        described_field("documents", pa.int64(), "Its chunks."),
        described_field("encoder", pa.string(), "Name of its encoder; empty when it has none."),
        described_field("encoder_fingerprint", pa.string(), "The encoder's fingerprint; empty when it has none."),
        described_field(
            "dim", pa.int32(), "Dimensions of its vectors, or terms of its vocabulary; 0 when it has none."
        ),
        described_field("variant", pa.string(), "FAISS factory, or profile of late interaction; else empty."),
    ]
)
