"""Layout of a bundle root, and the reading of CURRENT.

::

    <root>/CURRENT                        "<version> <sha256 of its manifest.json>\\n"
    <root>/refs/<repository>@<ref>        as CURRENT, for another ref of a repository (`refs`)
    <root>/versions/<version>/            one immutable version
    <root>/versions/.staging-<...>/       a version being written; never opened by readers
    <root>/versions/.staging-import-<...>/  one that the process which writes it publishes, or nobody
    <root>/versions/.removed-<version>/   a version being removed; never opened by readers
    <root>/verdicts/<version>/            what the retrieval gate found of a version, and a notebook's page
    <root>/imports/<version>.json         where an imported version came from (`provenance`)
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
from codequarry.schemas.resources import raise_if_exhausted

_VERSION = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}(-[0-9]{1,9})?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
STAGING_PREFIX = ".staging-"
IMPORT_PREFIX = f"{STAGING_PREFIX}import-"
REMOVED_PREFIX = ".removed-"
_MAX_CURRENT_BYTES = 256
FAISS_IDMAP_FILE = "faiss.idmap.parquet"

DENSE_LEGS = ("faiss", "faiss2")
"""Channels of the dense indexes a version may hold; every version has the first one. Each has vectors of its own
encoder, in files that bear its suffix. All index the same chunks in the same order, so that they share one id map."""


def leg_suffix(leg: str) -> str:
    """Return what the file names of a dense index have behind their stem.

    >>> [leg_suffix(leg) for leg in DENSE_LEGS]
    ['', '2']
    """
    return leg.removeprefix(DENSE_LEGS[0])


def embeddings_table(leg: str) -> str:
    """Return the name of the table of a dense index's vectors.

    >>> [embeddings_table(leg) for leg in DENSE_LEGS]
    ['embeddings', 'embeddings2']
    """
    return f"embeddings{leg_suffix(leg)}"


def is_version_name(name: str) -> bool:
    """Return whether a text has the form of a version name.

    >>> is_version_name("20261121T120000Z-0123abcd"), is_version_name("../20261121T120000Z-0123abcd")
    (True, False)
    """
    return _VERSION.fullmatch(name) is not None


def is_encoder_file(path: str) -> bool:
    """Return whether a file of a version belongs to an encoder.

    Args:
        path: Path of the file as the manifest names it.

    Returns:
        True for files of each dense index's encoder, and of the encoders in ``warp/`` and ``splade/``.

    >>> [is_encoder_file(path) for path in ("encoder/rows.npy", "warp/encoder/model.onnx", "rows/chunks.npy")]
    [True, True, False]
    """
    folders = path.split("/")[:-1]
    return bool(folders) and folders[-1] in {f"encoder{leg_suffix(leg)}" for leg in DENSE_LEGS}


@dataclass(frozen=True, slots=True)
class Current:
    """The content of CURRENT."""

    version: str
    manifest_sha256: str

    def line(self) -> str:
        """Return the one line the file holds."""
        return f"{self.version} {self.manifest_sha256}\n"

    @classmethod
    def parse(cls, raw: bytes) -> Current | None:
        """Parse the content of CURRENT; None when it is anything but that one line."""
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
    def refs(self) -> Path:
        """Folder of the files that name the versions of further refs."""
        return self.path / "refs"

    @property
    def versions(self) -> Path:
        return self.path / "versions"

    @property
    def verdicts(self) -> Path:
        """Folder of what the retrieval gate found and a notebook showed, by version."""
        return self.path / "verdicts"

    @property
    def imports(self) -> Path:
        """Folder of the files that say where imported versions came from."""
        return self.path / "imports"

    def provenance(self, version: str) -> Path:
        """Return the file that says where a version came from; absent when it was built here."""
        return self.imports / f"{version}.json"

    @property
    def publishing(self) -> Path:
        return self.path / ".publishing"

    @property
    def lock(self) -> Path:
        return self.path / ".publish.lock"

    def version(self, name: str) -> BundlePaths:
        """Return the paths of one version.

        Args:
            name: Name of the version, which need not be published.

        Returns:
            Paths below its folder.

        Raises:
            IntegrityError: The name is not a version name.
        """
        if not is_version_name(name):
            raise IntegrityError(
                f"{name!r} is not a version name", suggestion="run `codequarry versions` for the published ones"
            )
        return BundlePaths(self.versions / name)

    def published(self, name: str) -> BundlePaths:
        """Return the paths of a published version.

        Args:
            name: Name of the version.

        Returns:
            Paths below its folder.

        Raises:
            NotFoundError: No such version is published.
        """
        if name not in (names := self.version_names()):
            raise NotFoundError(
                f"no such version; there are: {', '.join(names) or 'none'}",
                suggestion="name one of them, as `codequarry versions` lists them",
            )
        return self.version(name)

    def version_names(self) -> list[str]:
        """Return the published versions by name; see `version_order` for the order in which they were built."""
        if not self.versions.is_dir():
            return []
        return sorted(entry.name for entry in self.versions.iterdir() if is_version_name(entry.name))

    def read_current(self) -> Current:
        """Read CURRENT, which names the version that readers open.

        Returns:
            The version and the sha256 of its manifest.

        Raises:
            NoBundleError: Nothing was published here.
            IntegrityError: CURRENT is not one valid line.
            ResourcesError: It cannot be read now.
        """
        return self.read_pointer(self.current)

    def read_pointer(self, file: Path) -> Current:
        """Read CURRENT, or a file of the same form; returns and raises as `read_current`."""
        try:
            raw = _regular_bytes(file)
        except FileNotFoundError:
            raise NoBundleError(
                f"no bundle is published under {self.path}",
                suggestion="run `codequarry index PATH` first, or point --root at a bundle root",
            ) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise IntegrityError(
                    f"{file} is a symbolic link, expected a regular file", suggestion="publish again"
                ) from error
            raise_if_exhausted(error, f"{file} cannot be read now")
            raise NoBundleError(
                f"{file} cannot be read: {error.strerror}", suggestion="check that --root is a readable folder"
            ) from error
        current = Current.parse(raw)
        if current is None:
            remedy = "run `codequarry rollback` to name the newest whole version again"
            raise IntegrityError(
                f"{file} holds something else ({_size(raw)}), expected '<version> <sha256>'",
                suggestion=remedy if file == self.current else "run `codequarry index` again",
            )
        return current

    def read_publishing(self) -> Current | None:
        """Read the version whose publish has begun and not ended.

        Returns:
            The version; None when there is none.

        Raises:
            ResourcesError: The file cannot be read now.
        """
        try:
            return Current.parse(self.publishing.read_bytes())
        except OSError as error:
            raise_if_exhausted(error, f"{self.publishing} cannot be read now")
            return None


@dataclass(frozen=True, slots=True)
class BundlePaths:
    """Paths of one version; names relative to it are what the manifest lists."""

    path: Path
    dense: str = DENSE_LEGS[0]
    """Channel of the dense index whose vectors, index and encoder these paths name."""

    def leg(self, name: str) -> BundlePaths:
        """Return the same version, with the vectors, index and encoder of one of `DENSE_LEGS`."""
        return BundlePaths(self.path, name)

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def catalog(self) -> Path:
        return self.path / "catalog.duckdb"

    @property
    def open_sql(self) -> Path:
        """Statement after which the catalog's views find their files in any DuckDB shell."""
        return self.path / "open.sql"

    @property
    def tables(self) -> Path:
        return self.path / "tables"

    def table(self, name: str) -> Path:
        """Return the file of a table that is not divided, or of the only shard of one."""
        return self.tables / f"{name}.parquet"

    def table_bytes(self) -> int:
        """Return the size of all tables, vectors included."""
        return sum(file.stat().st_size for file in self.tables.glob("*.parquet"))

    def table_files(self, name: str) -> list[Path]:
        """Return the files of a table of ``tables.SCHEMAS``, or of `embeddings`, by shard."""
        return sorted(self.tables.glob(f"{name}.*parquet"))

    @property
    def embeddings(self) -> str:
        """Name of the table of the vectors."""
        return embeddings_table(self.dense)

    def chunk_tables(self) -> dict[int, Path]:
        """Return the files of the table ``chunks``, by number of the shard."""
        files = [(file.name.split("."), file) for file in self.table_files("chunks")]
        return {int(name[1]) if len(name) == 3 else 0: file for name, file in files}

    def faiss_indexes(self) -> list[Path]:
        """Return the shards of the dense index, in the order of the id map's rows."""
        return sorted(self.path.glob(f"{self.dense}.*index"))

    @property
    def faiss_idmap(self) -> Path:
        """The chunk of each row, for every dense index."""
        return self.path / FAISS_IDMAP_FILE

    @property
    def tuning(self) -> Path:
        """Operating points of the index, see `faiss_tuning`."""
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
        """The fields of chunks and definitions that a search reads, see `row_index`."""
        return self.path / "rows"

    @property
    def facts(self) -> Path:
        """The facts that only explanations need, see `catalog.facts`; absent in older versions."""
        return self.path / "facts"

    @property
    def stack(self) -> Path:
        """Relation of a delta version to its base, see `schemas.bundle.stack`; absent in a complete version."""
        return self.path / "stack"

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
    """Return the first bytes of a regular file, without ever waiting for a pipe or following a link.

    Args:
        path: The file.

    Returns:
        At most `_MAX_CURRENT_BYTES` bytes.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.read(descriptor, _MAX_CURRENT_BYTES)
    finally:
        os.close(descriptor)


def _size(raw: bytes) -> str:
    return f"{len(raw)} bytes" if len(raw) < _MAX_CURRENT_BYTES else f"{_MAX_CURRENT_BYTES} bytes or more"
