"""``manifest.json``: the only truth about what a version holds.

Invariants
1. ``files`` lists every regular file of the version except the manifest itself, sorted by path; each path lies below
   the version's folder and can stand there beside all others (`file_paths`).
2. ``sha256`` and ``size_bytes`` are those of the bytes on disk.
3. ``content_sha256`` is present exactly where a library cannot write reproducible bytes (DuckDB, and before format 3
   tantivy); it digests what the file was made from instead.
4. ``digest`` depends on sources, settings, models and contents, never on the clock, the machine or paths: two builds
   of the same input have the same digest.
5. ``counts.chunks`` = rows of ``chunks`` = ids in the FAISS id map, which is that of every leg = documents in BM25 =
   documents of the late-interaction index and of the learned sparse one, where there are such.
6. Equal keys of ``shards``, equal files: a shard's files follow from its key, whatever was built before.
7. ``checksum`` is the sha256 of the file without that key, and the bytes are those `to_json` writes: any change shows,
   also in a version that CURRENT, which promises the manifest's sha256, no longer names. Formats before 2 have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from codequarry.schemas.errors import FormatError, IntegrityError
from codequarry.schemas.file_paths import check_file_paths
from codequarry.schemas.index_settings import Tier
from codequarry.schemas.layout import DENSE_LEGS

FILE_NAME = "manifest.json"
FORMAT_VERSION = 6
"""Counts up when a reader of the format before could not use a version; see ``docs/BUNDLE.md``."""


_MAX_SIZE = (1 << 63) - 1
_FOLLOWING = b'\n "compatibility": '
"""What the checksum stands before."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileEntry(_Record):
    """One file of the version."""

    path: str = Field(description="Path below the version folder, '/' separated.")
    size_bytes: int = Field(ge=0, le=_MAX_SIZE, description="Size in bytes.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="sha256 of the bytes, lower-case hex.")
    content_sha256: str | None = Field(default=None, description="Reproducible digest where the bytes are not.")
    rows: int | None = Field(default=None, description="Rows, for tables.")
    schema_sha256: str | None = Field(default=None, description="Hash of column names and types, for tables.")


class ScipEntry(_Record):
    """What one SCIP indexer, or an index made elsewhere, says of a repository."""

    indexer: str = Field(description="Name, and version when known; empty when a given index cannot be read.")
    status: Literal["ok", "partial", "missing", "failed", "timeout"] = Field(
        description="ok, partial, missing, failed or timeout."
    )
    reason: str = Field(description="Why the status is not ok; empty when it is.")
    files: int = Field(description="Indexed files of the languages it covers.")
    documents: int = Field(description="Those among them that SCIP describes.")
    given: str = Field(default="", description="File name of an index made elsewhere; empty when the indexer ran here.")
    sha256: str = Field(default="", description="sha256 of the given index; empty when it could not be read.")

    @property
    def label(self) -> str:
        """The indexer as people see it, behind the file it came in."""
        return f"{self.given} {self.indexer}".strip()

    @property
    def coverage(self) -> float:
        """documents / files, in [0, 1]."""
        return self.documents / self.files if self.files else 0.0


class SourceEntry(_Record):
    """One repository as it was read."""

    name: str = Field(description="Name in ids, URLs and filters.")
    url: str = Field(default="", description="Where it was fetched from, without credentials; empty for a local path.")
    ref: str = Field(default="", description="Branch, tag or commit that was asked for; empty when none was.")
    commit: str = Field(description="Commit id that was read; empty for a directory without git.")
    dirty: bool = Field(description="True when the indexed files differ from that commit, or there is none.")
    tree_sha256: str = Field(description="sha256 over (path, content) of every indexed file.")
    files: int = Field(description="Indexed files.")
    chunks: int = Field(description="Their chunks.")
    classes: dict[str, int] = Field(default_factory=dict, description="Indexed files by path class.")
    skipped: dict[str, int] = Field(description="Skipped files by reason.")
    secrets: dict[str, int] | None = Field(
        default=None,
        description="Secrets replaced by asterisks, by kind; null when not looked for. Absent in formats before 5.",
    )
    scip: tuple[ScipEntry, ...] = Field(default=(), description="One entry per indexer; empty when none applies.")

    @property
    def revision(self) -> str:
        """The commit as answers name it: '+dirty' behind it when the files differ, '' without git."""
        return self.commit + ("+dirty" if self.commit and self.dirty else "")


class ModelEntry(_Record):
    """What an encoder runs."""

    kind: str = Field(description="static, onnx, endpoint or tokens: how it is run.")
    model: str = Field(description="Name where it comes from, or at its server; empty when it is our own.")
    revision: str = Field(description="Of the weights, as the settings pinned it; may be empty.")
    license: str = Field(description="SPDX identifier of the weights' licence, as far as it is known.")
    max_tokens: int = Field(description="Longer texts are cut; 0 when they are not, or by a server.")
    query_prefix: str = Field(description="Put in front of a query; never of a chunk.")
    document_prefix: str = Field(description="Put in front of a chunk.")
    weights_sha256: str = Field(description="Hash over the sha256 of its weights; of an endpoint, that of its probe.")
    tokenizer_sha256: str = Field(description="sha256 of its tokenizer; empty when a server has it.")


class EncoderEntry(_Record):
    """The dense encoder whose vectors the version holds."""

    name: str = Field(description="Name for people.")
    fingerprint: str = Field(description="Hash of everything that changes vectors; queries need the same.")
    dim: int = Field(description="Length of a vector.")
    adaptation: str = Field(
        default="", description="What came of fitting it to the sources; empty when that was not tried, and before 4."
    )
    model: ModelEntry | None = Field(default=None, description="What it runs; null in formats before 5.")


class FaissEntry(_Record):
    """The dense index."""

    factory: str = Field(description="FAISS factory string, behind IDMap2.")
    exact: bool = Field(description="True when the index returns exact neighbours (Flat).")
    metric: str = Field(default="inner_product", description="Metric of the index.")


class LegEntry(_Record):
    """A dense leg: an encoder, its vectors and their index."""

    channel: str = Field(pattern=r"^faiss[2-9]?$", description="Channel that answers from it, and stem of its files.")
    encoder: EncoderEntry = Field(description="Its encoder.")
    faiss: FaissEntry = Field(description="Its index.")


class WarpEntry(_Record):
    """The late-interaction index."""

    key: str = Field(pattern=r"^[0-9a-f]{64}$", description="Hash of all that decides its files: equal = same files.")
    profile: Literal["standard", "compact"] = Field(description="standard: exact, larger; compact: smaller.")
    bits: int = Field(description="Bits of each dimension of a residual.")
    punctuation: bool = Field(description="True when tokens without a letter or digit have vectors.")
    documents: int = Field(description="Its chunks.")
    tokens: int = Field(description="Their tokens with vectors.")
    centroids: int = Field(description="Clusters of tokens.")
    encoder: EncoderEntry = Field(description="The token encoder.")
    measured: str = Field(
        default="",
        description="Whether it helps on mined questions, and so is in the ranking; empty when that was not asked, and "
        "before 5.",
    )


class SpladeEntry(_Record):
    """The learned sparse index."""

    key: str = Field(pattern=r"^[0-9a-f]{64}$", description="Hash of all that decides its files: equal = same files.")
    documents: int = Field(description="Its chunks.")
    postings: int = Field(description="Terms of all of them.")
    terms: int = Field(description="A chunk has at most so many, the heaviest ones.")
    queries: Literal["model", "weights"] = Field(
        description="model: queries are encoded as chunks are; weights: by what their tokens weigh, without a model."
    )
    query_encoder: str = Field(description="Fingerprint of the encoder of queries, which travels in `splade/encoder/`.")
    encoder: EncoderEntry = Field(description="The encoder of chunks; `dim` is the size of its vocabulary.")
    license: str = Field(description="Of its weights, as its own description says.")


class SegmentEntry(_Record):
    """One tantivy segment."""

    id: str = Field(pattern=r"^[0-9a-f]{32}$", description="Name of its files, by their contents.")
    documents: int = Field(ge=1, description="Its chunks.")


class ShardEntry(_Record):
    """The files of the version that hold the same source files."""

    number: int = Field(ge=0, description="Number in the names of its files; the only shard has none there.")
    key: str = Field(pattern=r"^[0-9a-f]{64}$", description="Hash of all that decides its files: equal = same files.")
    files: int = Field(ge=1, description="Source files.")
    chunks: int = Field(ge=1, description="Their chunks.")
    segments: tuple[SegmentEntry, ...] = Field(description="What it contributes to the BM25 index.")


class CompatibilityEntry(_Record):
    """What a reader must have in common with the program that built the version."""

    analyzer: str = Field(description="Hash of the text analyzer and the lexical fields; BM25 needs the same.")
    tables: str = Field(description="Hash of the schema of every table, and of the catalog's SQL.")
    sha256: str = Field(description="Hash over format, encoder fingerprints, analyzer and tables: equal = all agree.")


class AcceptedEntry(_Record):
    """A check that compares with the version before, failed, and was accepted."""

    check: str = Field(description="Name of the check.")
    found: str = Field(description="What it found.")
    expected: str = Field(description="What it expected.")
    reason: str = Field(description="Why that is well, as given to `--accept-regression`.")


class Counts(_Record):
    """Totals over all sources."""

    files: int = Field(description="Indexed files.")
    skipped_files: int = Field(description="Files left out, each with a reason in `files.parquet`.")
    chunks: int = Field(description="Chunks.")


class Manifest(_Record):
    """Everything a reader needs to trust a version."""

    format_version: int = Field(default=FORMAT_VERSION, description="Format of the bundle, not of the program.")
    version: str = Field(description="Name of the version, and of its folder: time of the build and digest.")
    created: str = Field(description="UTC time of the build, ISO 8601. Not part of the digest.")
    digest: str = Field(description="Reproducible digest of the whole version.")
    settings_sha256: str = Field(description="Hash of the settings that decide the contents.")
    tools: dict[str, str] = Field(description="Versions of the libraries that wrote the files.")
    sources: tuple[SourceEntry, ...] = Field(description="Every repository, by name.")
    encoder: EncoderEntry = Field(description="The dense encoder.")
    faiss: FaissEntry = Field(description="The dense index.")
    more_legs: tuple[LegEntry, ...] = Field(
        default=(), description="Further dense legs, of tiers above fast; empty in formats before 4."
    )
    warp: WarpEntry | None = Field(
        default=None, description="The late-interaction index; null when there is none. Absent in formats before 4."
    )
    splade: SpladeEntry | None = Field(
        default=None, description="The learned sparse index; null when there is none. Absent in formats before 5."
    )
    counts: Counts = Field(description="Totals over all sources.")
    shards: tuple[ShardEntry, ...] = Field(default=(), description="By number; empty in formats before 3.")
    compatibility: CompatibilityEntry | None = Field(default=None, description="Null in versions of format 1.")
    accepted: tuple[AcceptedEntry, ...] = Field(
        default=(), description="Regressions that were accepted; empty when there was none. Absent in formats before 5."
    )
    files: tuple[FileEntry, ...] = Field(description="Every file but the manifest, by path.")

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
    def legs(self) -> tuple[LegEntry, ...]:
        """Every dense leg, the first one first."""
        return (LegEntry(channel=DENSE_LEGS[0], encoder=self.encoder, faiss=self.faiss), *self.more_legs)

    @property
    def tier(self) -> Tier:
        """The tier of the settings that makes such a version."""
        if not self.more_legs:
            return "fast"
        return "standard" if self.warp is None else "full"

    def entry(self, path: str) -> FileEntry:
        """The entry of one file. Raises IntegrityError: the manifest does not list it."""
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
    """The manifest's ``digest`` (sha256 hex), from its reproducible parts."""
    parts: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "settings": settings_sha256,
        "encoders": [encoder.fingerprint for encoder in encoders],
        "sources": [source.model_dump() for source in sorted(sources, key=lambda source: source.name)],
        "files": sorted({(entry.content_sha256 or f"{entry.path}:{entry.sha256}") for entry in files}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def to_json(manifest: Manifest) -> bytes:
    """The bytes of ``manifest.json``."""
    raw = manifest.model_dump()
    if manifest.format_version < 5:
        for source in raw["sources"]:
            del source["secrets"]
        for leg in (raw, *raw["more_legs"], *filter(None, [raw["warp"]])):
            del leg["encoder"]["model"]
        del raw["accepted"], raw["splade"]
        if raw["warp"] is not None:
            del raw["warp"]["measured"]
    if manifest.format_version < 4:
        del raw["more_legs"], raw["warp"], raw["encoder"]["adaptation"]
    if manifest.format_version < 3:
        del raw["shards"]
    if manifest.format_version == 1:
        del raw["compatibility"]
        return _dumped(raw)
    data = _dumped(raw)
    before, following, after = data.partition(_FOLLOWING)
    return before + _checksum_line(hashlib.sha256(data).hexdigest()) + following + after


@lru_cache(maxsize=4)  # a run reads that of CURRENT and of what it stages a dozen times, at 15 CPU-ms
def from_json(data: bytes) -> Manifest:
    """Parse ``manifest.json``, of this format or an older one.

    Raises FormatError: written by a newer format. IntegrityError: not a manifest, or one that was changed.
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
    if found > FORMAT_VERSION:
        raise FormatError(
            f"the bundle has format {found}, this program reads formats 1 to {FORMAT_VERSION}",
            suggestion="upgrade codequarry, or build the bundle again with this version",
        )
    checksum = raw.pop("checksum", None)
    if checksum is not None if found == 1 else not _vouched_for(data, checksum):
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


def _vouched_for(data: bytes, checksum: object) -> bool:
    """Whether a manifest, the line of its checksum taken out, has that checksum."""
    if not isinstance(checksum, str):
        return False
    before, found, after = data.partition(_checksum_line(checksum))
    return bool(found) and hashlib.sha256(before + after).hexdigest() == checksum


def _dumped(raw: dict[str, Any]) -> bytes:
    return (json.dumps(raw, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _checksum_line(checksum: str) -> bytes:
    return f'\n "checksum": "{checksum}",'.encode("utf-8", "replace")
