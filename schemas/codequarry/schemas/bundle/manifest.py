"""``manifest.json``: the only truth about what a version holds.

Invariants
1. ``files`` lists every regular file of the version except the manifest itself, sorted by path; each path lies below
   the version's folder and can stand there beside all others (`file_paths`).
2. ``sha256`` and ``size_bytes`` are those of the bytes on disk.
3. ``content_sha256`` is present exactly where a library cannot write reproducible bytes (DuckDB);
   it digests what the file was made from instead.
4. ``digest`` depends on sources, settings, models and contents, never on the clock, the machine or paths: two builds
   of the same input have the same digest.
5. ``counts.chunks`` = rows of ``chunks`` = ids in the FAISS id map, which all dense indexes share = documents in BM25 =
   documents of the late-interaction index and of the learned sparse one, when the version has them. Of a delta version
   (``stack``), the same holds for ``own_counts``.
6. Equal keys of ``shards``, equal files: a shard's files follow from its key, whatever was built before.
7. ``checksum`` is the sha256 of the file without that key, and the bytes are those `to_json` writes. Any change shows,
   also in a version that CURRENT, which promises the manifest's sha256, no longer names.
8. Fields have the forms of `manifest_fields`, whoever wrote them: nothing in them can be obeyed by a terminal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from codequarry.schemas.bundle.checksummed_json import dump_with_checksum, is_vouched_for
from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.bundle.manifest_fields import (
    MAX_ENTRIES,
    MAX_FILES,
    MAX_SOURCES,
    Count,
    Counted,
    Dim,
    Flag,
    Hex,
    Label,
    Name,
    PrefixText,
    Ref,
    Sha256,
    Size,
    Text,
    Time,
    Url,
    VersionName,
    check_file_paths,
)
from codequarry.schemas.errors import FormatError, IntegrityError
from codequarry.schemas.settings.indexes import Tier
from codequarry.schemas.strict_model import StrictModel

FILE_NAME = "manifest.json"
FORMAT_VERSION = 4
"""Increased when a reader of the previous format could not use a version; see ``docs/BUNDLE.md``."""


MAX_SEQUENCE = (1 << 53) - 1
"""Largest whole number that every reader of JSON keeps exactly."""
_FOLLOWING = "compatibility"
"""Key in front of which the checksum's line is inserted."""


class FileEntry(StrictModel):
    """One file of the version."""

    path: str = Field(description="Path below the version folder, '/' separated.")
    size_bytes: Size = Field(description="Size in bytes.")
    sha256: Sha256 = Field(description="sha256 of the bytes, lower-case hex.")
    content_sha256: Hex | None = Field(default=None, description="Reproducible digest where the bytes are not.")
    rows: Count | None = Field(default=None, description="Rows, for tables.")
    schema_sha256: Hex | None = Field(default=None, description="Hash of column names and types, for tables.")


class ScipEntry(StrictModel):
    """Results of one SCIP indexer, or of an index made elsewhere, for a repository."""

    indexer: Label = Field(description="Name, and version when known; empty when a given index cannot be read.")
    status: Literal["ok", "partial", "missing", "failed", "timeout"] = Field(
        description="ok, partial, missing, failed or timeout."
    )
    reason: Text = Field(description="Why the status is not ok; empty when it is.")
    files: Count = Field(description="Indexed files of the languages it covers.")
    documents: Count = Field(description="Those among them that SCIP describes.")
    given: Label = Field(
        default="", description="File name of an index made elsewhere; empty when the indexer ran here."
    )
    sha256: Hex = Field(default="", description="sha256 of the given index; empty when it could not be read.")

    @property
    def label(self) -> str:
        """The indexer as people see it, behind the file it came in."""
        return f"{self.given} {self.indexer}".strip()

    @property
    def coverage(self) -> float:
        """documents / files, in [0, 1]."""
        return self.documents / self.files if self.files else 0.0


class SourceEntry(StrictModel):
    """One repository as it was read."""

    name: Name = Field(description="Name in ids, URLs and filters.")
    url: Url = Field(default="", description="Where it was fetched from, without credentials; empty for a local path.")
    ref: Ref = Field(default="", description="Branch, tag or commit that was asked for; empty when none was.")
    commit: Hex = Field(description="Commit id that was read; empty for a directory without git.")
    dirty: Flag = Field(description="True when the indexed files differ from that commit, or there is none.")
    tree_sha256: Hex = Field(description="sha256 over (path, content) of every indexed file.")
    files: Count = Field(description="Indexed files.")
    chunks: Count = Field(description="Their chunks.")
    classes: Counted = Field(default_factory=dict, description="Indexed files by path class.")
    skipped: Counted = Field(description="Skipped files by reason.")
    secrets: Counted | None = Field(
        default=None,
        description="Secrets replaced by asterisks, by kind; null when not looked for.",
    )
    scip: tuple[ScipEntry, ...] = Field(
        default=(), max_length=MAX_ENTRIES, description="One entry per indexer; empty when none applies."
    )

    @property
    def revision(self) -> str:
        """The commit as answers name it: '+dirty' behind it when the files differ, '' without git."""
        return self.commit + ("+dirty" if self.commit and self.dirty else "")


class ModelEntry(StrictModel):
    """Model and settings of an encoder."""

    kind: Label = Field(description="static, onnx, endpoint or tokens: how it is run.")
    model: Label = Field(description="Name where it comes from, or at its server; empty when it is our own.")
    revision: Label = Field(description="Of the weights, as the settings pinned it; may be empty.")
    license: Label = Field(description="SPDX identifier of the weights' licence, as far as it is known.")
    max_tokens: Count = Field(description="Longer texts are cut; 0 when they are not, or by a server.")
    query_prefix: PrefixText = Field(description="Put in front of a query; never of a chunk.")
    document_prefix: PrefixText = Field(description="Put in front of a chunk.")
    weights_sha256: Hex = Field(description="Hash over the sha256 of its weights; of an endpoint, that of its probe.")
    tokenizer_sha256: Hex = Field(description="sha256 of its tokenizer; empty when a server has it.")


class EncoderEntry(StrictModel):
    """The dense encoder whose vectors the version holds."""

    name: Label = Field(description="Name for people.")
    fingerprint: Hex = Field(description="Hash of everything that changes vectors; queries need the same.")
    dim: Dim = Field(description="Length of a vector.")
    adaptation: Text = Field(
        default="", description="What came of fitting it to the sources; empty when that was not tried."
    )
    model: ModelEntry | None = Field(default=None, description="What it runs.")


class FaissEntry(StrictModel):
    """The dense index."""

    factory: Label = Field(description="FAISS factory string, behind IDMap2.")
    exact: Flag = Field(description="True when the index returns exact neighbours (Flat).")
    metric: Label = Field(default="inner_product", description="Metric of the index.")


class LegEntry(StrictModel):
    """A dense index with its encoder and vectors."""

    channel: str = Field(pattern=r"^faiss[2-9]?$", description="Channel that answers from it, and stem of its files.")
    encoder: EncoderEntry = Field(description="Its encoder.")
    faiss: FaissEntry = Field(description="Its index.")


class WarpEntry(StrictModel):
    """The late-interaction index."""

    key: Sha256 = Field(description="Hash of all that decides its files: equal = same files.")
    profile: Literal["standard", "compact"] = Field(description="standard: exact, larger; compact: smaller.")
    bits: Count = Field(description="Bits of each dimension of a residual.")
    punctuation: Flag = Field(description="True when tokens without a letter or digit have vectors.")
    documents: Count = Field(description="Its chunks.")
    tokens: Count = Field(description="Their tokens with vectors.")
    centroids: Count = Field(description="Clusters of tokens.")
    encoder: EncoderEntry = Field(description="The token encoder.")
    measured: Text = Field(
        default="",
        description="Whether it helps on mined questions, and so is in the ranking; empty when that was not asked, and "
        "before 5.",
    )


class SpladeEntry(StrictModel):
    """The learned sparse index."""

    key: Sha256 = Field(description="Hash of all that decides its files: equal = same files.")
    documents: Count = Field(description="Its chunks.")
    postings: Count = Field(description="Terms of all of them.")
    terms: Count = Field(description="A chunk has at most so many, the heaviest ones.")
    queries: Literal["model", "weights"] = Field(
        description="model: queries are encoded as chunks are; weights: by what their tokens weigh, without a model."
    )
    query_encoder: Hex = Field(description="Fingerprint of the encoder of queries, which travels in `splade/encoder/`.")
    encoder: EncoderEntry = Field(description="The encoder of chunks; `dim` is the size of its vocabulary.")
    license: Label = Field(description="Of its weights, as its own description says.")


class SegmentEntry(StrictModel):
    """One tantivy segment."""

    id: str = Field(pattern=r"^[0-9a-f]{32}$", description="Name of its files, by their contents.")
    documents: Count = Field(ge=1, description="Its chunks.")


class ShardEntry(StrictModel):
    """The files of the version that hold the same source files."""

    number: Count = Field(description="Number in the names of its files; the only shard has none there.")
    key: Sha256 = Field(description="Hash of all that decides its files: equal = same files.")
    files: Count = Field(ge=1, description="Source files.")
    chunks: Count = Field(ge=1, description="Their chunks.")
    segments: tuple[SegmentEntry, ...] = Field(
        max_length=MAX_ENTRIES, description="What it contributes to the BM25 index."
    )


class CompatibilityEntry(StrictModel):
    """Properties that a reader must share with the program that built the version."""

    analyzer: Hex = Field(description="Hash of the text analyzer and the lexical fields; BM25 needs the same.")
    tables: Hex = Field(description="Hash of the schema of every table, and of the catalog's SQL.")
    sha256: Hex = Field(description="Hash over format, encoder fingerprints, analyzer and tables: equal = all agree.")


class AcceptedEntry(StrictModel):
    """A failed comparison with the previous version that was accepted."""

    check: Label = Field(description="Name of the check.")
    found: Text = Field(description="What it found.")
    expected: Text = Field(description="What it expected.")
    reason: Text = Field(description="Why that is well, as given to `--accept-regression`.")


class Counts(StrictModel):
    """Totals over all sources."""

    files: Count = Field(description="Indexed files.")
    skipped_files: Count = Field(description="Files left out, each with a reason in `files.parquet`.")
    chunks: Count = Field(description="Chunks.")


class StackEntry(StrictModel):
    """Relation of a delta version to its base."""

    base: VersionName = Field(description="The complete version below; it has no `stack` of its own.")
    base_sha256: Sha256 = Field(description="sha256 of the base's `manifest.json`.")
    hidden_files: Count = Field(description="Files of the base that changed or are gone.")
    hidden_chunks: Count = Field(description="Their chunks.")
    files: Count = Field(description="Indexed files of the delta itself.")
    skipped_files: Count = Field(description="Files of the delta itself that are left out.")
    chunks: Count = Field(description="Chunks of the delta itself.")


class Manifest(StrictModel):
    """Everything a reader needs to trust a version."""

    format_version: int = Field(default=FORMAT_VERSION, description="Format of the bundle, not of the program.")
    version: VersionName = Field(description="Name of the version, and of its folder: time of the build and digest.")
    created: Time = Field(description="UTC time of the build, ISO 8601. Not part of the digest.")
    sequence: int = Field(
        default=0,
        strict=True,
        ge=0,
        le=MAX_SEQUENCE,
        description="Place among the versions of a bundle root: higher than that of all that were there, and not less "
        "than the second of the build. Not part of the digest.",
    )
    digest: Hex = Field(description="Reproducible digest of the whole version.")
    settings_sha256: Hex = Field(description="Hash of the settings that decide the contents.")
    tools: Annotated[dict[Label, Label], Field(max_length=MAX_ENTRIES)] = Field(
        description="Versions of the libraries that wrote the files."
    )
    sources: tuple[SourceEntry, ...] = Field(max_length=MAX_SOURCES, description="Every repository, by name.")
    encoder: EncoderEntry = Field(description="The dense encoder.")
    faiss: FaissEntry = Field(description="The dense index.")
    more_legs: tuple[LegEntry, ...] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Further dense legs, of tiers above fast.",
    )
    warp: WarpEntry | None = Field(default=None, description="The late-interaction index; null when there is none.")
    splade: SpladeEntry | None = Field(default=None, description="The learned sparse index; null when there is none.")
    counts: Counts = Field(description="Totals over all sources.")
    stack: StackEntry | None = Field(
        default=None,
        description="The base that a delta version lies over; null for a complete version. The files of a delta are "
        "those of its own source files; `sources` and `counts` are of both.",
    )
    shards: tuple[ShardEntry, ...] = Field(default=(), max_length=MAX_ENTRIES, description="By number.")
    compatibility: CompatibilityEntry = Field(description="What a reader must have in common with its builder.")
    accepted: tuple[AcceptedEntry, ...] = Field(
        default=(),
        max_length=MAX_ENTRIES,
        description="Regressions that were accepted; empty when there was none.",
    )
    files: tuple[FileEntry, ...] = Field(max_length=MAX_FILES, description="Every file but the manifest, by path.")

    @field_validator("files")
    @classmethod
    def _can_all_be_made(cls, files: tuple[FileEntry, ...]) -> tuple[FileEntry, ...]:
        check_file_paths((entry.path for entry in files), taken=FILE_NAME)
        return files

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, the manifest apart."""
        return sum(entry.size_bytes for entry in self.files)

    @property
    def own_counts(self) -> Counts:
        """Totals of the version's own files: of a delta version, those of the files that differ from its base."""
        if self.stack is None:
            return self.counts
        return Counts.model_validate(self.stack.model_dump(include=set(Counts.model_fields)))

    @property
    def legs(self) -> tuple[LegEntry, ...]:
        """Every dense index, the first one first."""
        return (LegEntry(channel=DENSE_LEGS[0], encoder=self.encoder, faiss=self.faiss), *self.more_legs)

    @property
    def tier(self) -> Tier:
        """The tier of the settings that makes such a version."""
        if not self.more_legs:
            return "fast"
        return "standard" if self.warp is None else "full"

    def entry(self, path: str) -> FileEntry:
        """Return the entry of one file.

        Args:
            path: Path of the file, relative to the version's folder.

        Returns:
            Its entry.

        Raises:
            IntegrityError: The manifest does not list the file.
        """
        for entry in self.files:
            if entry.path == path:
                return entry
        raise IntegrityError(f"the manifest of {self.version} lists no {path}", suggestion="build the bundle again")


def content_digest(
    *,
    sources: tuple[SourceEntry, ...],
    settings_sha256: str,
    encoders: Sequence[EncoderEntry],
    files: tuple[FileEntry, ...],
) -> str:
    """Return the manifest's ``digest`` (sha256 hex), from its reproducible parts."""
    parts: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "settings": settings_sha256,
        "encoders": [encoder.fingerprint for encoder in encoders],
        "sources": [source.model_dump() for source in sorted(sources, key=lambda source: source.name)],
        "files": sorted({(entry.content_sha256 or f"{entry.path}:{entry.sha256}") for entry in files}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def to_json(manifest: Manifest) -> bytes:
    """Return the bytes of ``manifest.json``."""
    return dump_with_checksum(manifest.model_dump(), before=_FOLLOWING)


@lru_cache(maxsize=4)  # a run reads that of CURRENT and of what it stages a dozen times, at 15 CPU-ms
def from_json(data: bytes) -> Manifest:
    """Parse ``manifest.json``.

    Args:
        data: Bytes of the file.

    Returns:
        The manifest.

    Raises:
        FormatError: A program with another format wrote it.
        IntegrityError: It is not a manifest, or was changed after it was written.
    """
    try:
        raw = json.loads(data)
        found = raw["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"manifest.json is not a manifest ({type(error).__name__})",
            suggestion="verify the version, or publish again",
        ) from error
    if type(found) is not int or found < 1:
        raise IntegrityError(
            "manifest.json names no format version", suggestion="roll back to another version, or publish again"
        )
    if found != FORMAT_VERSION:
        raise FormatError(
            f"the bundle has format {found}, this program reads format {FORMAT_VERSION}",
            suggestion="build it again with `codequarry index`, or upgrade codequarry if a newer one wrote it",
        )
    checksum = raw.pop("checksum", None)
    if not is_vouched_for(data, checksum):
        raise IntegrityError(
            "manifest.json was changed after it was written: its checksum does not fit",
            suggestion="roll back to another version, or publish again",
        )
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        raise IntegrityError(
            f"manifest.json does not follow the format: {error.error_count()} problems, "
            f"first at {error.errors()[0]['loc']}",
            suggestion="verify the version, or publish again",
        ) from error
