"""Disk space of the store, the work folder and the versions, by what takes it. No run is waited for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codequarry.pipelines.adapt.stage import adapted_folders
from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.pipelines.secrets.redaction import scans_folder
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import SPEC_FILE, EncoderSpec


@dataclass(frozen=True, slots=True)
class Cost:
    """Disk space of one thing."""

    place: Literal["store", "work", "versions"]
    what: str
    """Kind of the thing."""
    name: str
    """Its own name; "" when there is one of its kind."""
    entries: int | None
    """Entries of a database, else files; None for a database that cannot be read now."""
    size_bytes: int
    """Bytes of its files; a file that several versions share counts once, for the newest one."""


def disk_costs(settings: Settings) -> list[Cost]:
    """Return what the state folders hold.

    Args:
        settings: Settings with the paths.

    Returns:
        Costs of the store, of the work folder by repository, and of the versions, the newest first. A file that several
        versions share counts once, for the newest one; one that the work folder shares with a version, for the version.
    """
    counted: set[tuple[int, int]] = set()
    versions = list(_version_costs(settings, counted))
    return [*_store_costs(settings), *_work_costs(settings.paths.work, counted), *versions]


def _store_costs(settings: Settings) -> Iterator[Cost]:
    store = settings.paths.store
    names = _encoder_names(settings)
    kinds = {"vectors": "vectors", "tokens": "token codes", "splade": "sparse terms", "syntax": "syntax"}
    known = {store / folder: what for folder, what in kinds.items()} | {scans_folder(store): "secrets"}
    for folder, what in known.items():
        for file in sorted(folder.glob("*.sqlite")):
            by_encoder = next((name for print_, name in names.items() if file.stem.startswith(print_)), file.stem[:12])
            size = sum(_size(file.with_name(file.name + suffix)) for suffix in ("", "-wal", "-shm"))
            yield Cost("store", what, by_encoder, _entries(file), size)
    for what, folders in (
        ("SCIP indexes", (store / "scip").glob("*/*")),
        ("encoders", (store / "encoders").glob("[!.]*")),
        ("fitted encoders", adapted_folders(settings).glob("[!.]*")),
        ("clones", (store / "repositories").glob("*")),
    ):
        for folder in sorted(filter(Path.is_dir, folders)):
            yield _store_folder_cost(what, folder.name, folder)


def _encoder_names(settings: Settings) -> dict[str, str]:
    """Return the names of the encoders that are here, by fingerprint."""
    folders = [SHIPPED, *(settings.paths.store / "encoders").glob("[!.]*"), *adapted_folders(settings).glob("[!.]*")]
    found: dict[str, str] = {}
    for folder in folders:
        for file in (folder / SPEC_FILE, *folder.glob(f"*/{SPEC_FILE}")):
            with suppress(CodequarryError, OSError):
                spec = EncoderSpec.load(file.parent)
                found[spec.fingerprint] = spec.name
    return found


def _work_costs(work: Path, counted: set[tuple[int, int]]) -> Iterator[Cost]:
    for folder in sorted(filter(Path.is_dir, (work / "repositories").glob("*"))):
        sizes = list(_new_sizes(folder, counted))
        yield Cost("work", "repository", folder.name, len(sizes), sum(sizes))


def _version_costs(settings: Settings, counted: set[tuple[int, int]]) -> Iterator[Cost]:
    root = BundleRoot(settings.bundle.root)
    for name in reversed(root.version_names()):
        sizes = list(_new_sizes(root.version(name).path, counted))
        yield Cost("versions", "version", name, len(sizes), sum(sizes))


def _new_sizes(folder: Path, counted: set[tuple[int, int]]) -> Iterator[int]:
    """Yield the sizes of files that are not among those counted, by device and inode, and add them."""
    for file in _files(folder):
        with suppress(OSError):  # pruned meanwhile
            status = file.stat()
            if (place := (status.st_dev, status.st_ino)) not in counted:
                counted.add(place)
                yield status.st_size


def _store_folder_cost(what: str, name: str, folder: Path) -> Cost:
    files = list(_files(folder))
    return Cost("store", what, name, len(files), sum(map(_size, files)))


def _files(folder: Path) -> Iterable[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _entries(file: Path) -> int | None:
    """Return the number of entries of a database; None when it cannot be read now."""
    try:  # opened read-only, SQLite would leave files beside it
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=1)) as connection:
            return connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    except sqlite3.Error:
        return None
