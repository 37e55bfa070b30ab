"""Where everything lies under a bundle root, and how CURRENT is read.

::

    <root>/CURRENT                        "<version> <sha256 of its manifest.json>\\n"
    <root>/versions/<version>/            one immutable version
    <root>/versions/.staging-<...>/       a version being written; never opened by readers
    <root>/versions/.staging-import-<...>/  one that the process which writes it publishes, or nobody
    <root>/versions/.removed-<version>/   a version being removed; never opened by readers
    <root>/verdicts/<version>/            what the retrieval gate found of a version, published or stopped
    <root>/.publishing                    as CURRENT: the version whose publish has begun and not ended
    <root>/.publish.lock                  held by the one publisher
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.errors import IntegrityError, NoBundleError, NotFoundError

_VERSION = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}(-[0-9]{1,9})?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
STAGING_PREFIX = ".staging-"
IMPORT_PREFIX = f"{STAGING_PREFIX}import-"
REMOVED_PREFIX = ".removed-"
_MAX_CURRENT_BYTES = 256

DENSE_LEGS = ("faiss", "faiss2")
"""Channels of the dense legs a version may hold, the one every version has first: each has vectors of its own encoder,
in files that bear its suffix. All index the same chunks in the same order, so that one id map is of all."""


def leg_suffix(leg: str) -> str:
    """What the names of a dense leg's files have behind their stem.

    >>> [leg_suffix(leg) for leg in DENSE_LEGS]
    ['', '2']
    """
    return leg.removeprefix(DENSE_LEGS[0])


def embeddings_table(leg: str) -> str:
    """Name of the table of a dense leg's vectors.

    >>> [embeddings_table(leg) for leg in DENSE_LEGS]
    ['embeddings', 'embeddings2']
    """
    return f"embeddings{leg_suffix(leg)}"


def is_version_name(name: str) -> bool:
    """Whether a version may be called that.

    >>> is_version_name("20261121T120000Z-0123abcd"), is_version_name("../20261121T120000Z-0123abcd")
    (True, False)
    """
    return _VERSION.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Current:
    """The content of CURRENT."""

    version: str
    manifest_sha256: str

    def line(self) -> str:
        """The one line the file holds."""
        return f"{self.version} {self.manifest_sha256}\n"

    @classmethod
    def parse(cls, raw: bytes) -> Current | None:
        """The content of such a file; None when it is anything but that one line."""
        version, _, digest = raw.decode("ascii", "replace").removesuffix("\n").partition(" ")
        found = cls(version, digest)
        whole = is_version_name(version) and _SHA256.fullmatch(digest) and found.line().encode() == raw
        return found if whole else None


RANKING_FILE = "ranking.json"
"""The ranking profile, in a version's folder."""


@dataclass(frozen=True, slots=True)
class BundleRoot:
    """Paths of a bundle root."""

    path: Path

    @property
    def current(self) -> Path:
        return self.path / "CURRENT"

    @property
    def versions(self) -> Path:
        return self.path / "versions"

    @property
    def verdicts(self) -> Path:
        """What the retrieval gate found, by version."""
        return self.path / "verdicts"

    @property
    def publishing(self) -> Path:
        return self.path / ".publishing"

    @property
    def lock(self) -> Path:
        return self.path / ".publish.lock"

    def version(self, name: str) -> BundlePaths:
        """Paths of one version. Raises IntegrityError: the name is not a version name."""
        if not is_version_name(name):
            raise IntegrityError(
                f"{name!r} is not a version name", suggestion="run `codequarry versions` for the published ones"
            )
        return BundlePaths(self.versions / name)

    def published(self, name: str) -> BundlePaths:
        """Paths of a version that is there. Raises NotFoundError: it is not."""
        if name not in (names := self.version_names()):
            raise NotFoundError(
                f"no such version; there are: {', '.join(names) or 'none'}",
                suggestion="name one of them, as `codequarry versions` lists them",
            )
        return self.version(name)

    def version_names(self) -> list[str]:
        """Published versions, oldest first."""
        if not self.versions.is_dir():
            return []
        return sorted(entry.name for entry in self.versions.iterdir() if is_version_name(entry.name))

    def read_current(self) -> Current:
        """The version readers open.

        Raises NoBundleError: nothing was published here. IntegrityError: CURRENT is not one valid line.
        """
        try:
            raw = _regular_bytes(self.current)
        except FileNotFoundError:
            raise NoBundleError(
                f"no bundle is published under {self.path}",
                suggestion="run `codequarry index PATH` first, or point --root at a bundle root",
            ) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise IntegrityError(
                    f"{self.current} is a symbolic link, expected a regular file", suggestion="publish again"
                ) from error
            raise NoBundleError(
                f"{self.current} cannot be read: {error.strerror}", suggestion="check that --root is a readable folder"
            ) from error
        current = Current.parse(raw)
        if current is None:
            raise IntegrityError(
                f"{self.current} holds something else ({_size(raw)}), expected '<version> <sha256>'",
                suggestion="run `codequarry rollback` to name the newest whole version again",
            )
        return current

    def read_publishing(self) -> Current | None:
        """The version whose publish has begun and not ended; None when there is none."""
        try:
            return Current.parse(self.publishing.read_bytes())
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class BundlePaths:
    """Paths of one version; names relative to it are what the manifest lists."""

    path: Path
    dense: str = DENSE_LEGS[0]
    """The leg whose vectors, index and encoder are meant."""

    def leg(self, name: str) -> BundlePaths:
        """The same version, with the vectors, index and encoder of a leg of `DENSE_LEGS`."""
        return BundlePaths(self.path, name)

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def catalog(self) -> Path:
        return self.path / "catalog.duckdb"

    @property
    def tables(self) -> Path:
        return self.path / "tables"

    def table(self, name: str) -> Path:
        """File of a table that is not divided, or of the only shard of one."""
        return self.tables / f"{name}.parquet"

    def table_files(self, name: str) -> list[Path]:
        """The files of a table of ``tables.SCHEMAS``, or of `embeddings`, by shard."""
        return sorted(self.tables.glob(f"{name}.*parquet"))

    @property
    def embeddings(self) -> str:
        """Name of the table of the vectors."""
        return embeddings_table(self.dense)

    def text_files(self) -> dict[int, Path]:
        """The texts of the chunks, by number of the shard."""
        files = [(file.name.split("."), file) for file in self.path.glob("texts.*bin")]
        return {int(name[1]) if len(name) == 3 else 0: file for name, file in files}

    @property
    def faiss_index(self) -> Path:
        """The dense index, or its only shard."""
        return self.path / f"{self.dense}.index"

    def faiss_indexes(self) -> list[Path]:
        """The shards of the dense index, in the order of the id map's rows."""
        return sorted(self.path.glob(f"{self.dense}.*index"))

    @property
    def faiss_idmap(self) -> Path:
        """Which chunk each row is, of every leg."""
        return self.path / "faiss.idmap.parquet"

    @property
    def vectors(self) -> Path:
        """(n, d) float32 rows in FAISS row order, for exact rerank; absent when the index itself is exact."""
        return self.path / f"{self.dense}.vectors.npy"

    @property
    def tuning(self) -> Path:
        """Operating points of the index, see `faiss_tuning`; absent when it is exact, and before format 5."""
        return self.path / f"{self.dense}.tuning.json"

    @property
    def bm25(self) -> Path:
        return self.path / "bm25"

    @property
    def files(self) -> Path:
        """The index of files, see `file_index`."""
        return self.path / "files"

    @property
    def rows(self) -> Path:
        """What a search reads of chunks and definitions, see `row_index`; absent in formats before 5."""
        return self.path / "rows"

    @property
    def facts(self) -> Path:
        """What explanations tell besides, see `chunk_facts`; absent in versions before there were any."""
        return self.path / "facts"

    @property
    def ranking(self) -> Path:
        """The ranking profile."""
        return self.path / RANKING_FILE

    @property
    def encoder(self) -> Path:
        return self.path / f"encoder{leg_suffix(self.dense)}"

    @property
    def warp(self) -> Path:
        """The late-interaction index, with its token encoder; absent when the version has none."""
        return self.path / "warp"

    @property
    def splade(self) -> Path:
        """The learned sparse index, with its encoder of queries; absent when the version has none."""
        return self.path / "splade"


def _regular_bytes(path: Path) -> bytes:
    """The first bytes of a regular file, without ever waiting for a pipe or following a link. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.read(descriptor, _MAX_CURRENT_BYTES)
    finally:
        os.close(descriptor)


def _size(raw: bytes) -> str:
    return f"{len(raw)} bytes" if len(raw) < _MAX_CURRENT_BYTES else f"{_MAX_CURRENT_BYTES} bytes or more"
