"""What an index over the texts of chunks takes, whatever the index: the texts, the store of what an encoder made of
them, and the encoder beside it.

Finished texts are kept every few hundred, so that a killed run resumes where it stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.hard_links import link_all
from codequarry.pipelines.parts import Part, put_seal, sealed
from codequarry.pipelines.shards import Shard
from codequarry.pipelines.vector_store import text_key
from codequarry.pipelines.workspace import Progress
from codequarry.schemas.encoder import SPEC_FILE, EncoderSpec
from codequarry.schemas.errors import SourceError
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import FileEntry, Manifest
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.tables import read_table
from codequarry.schemas.token_encoder import token_text

TEXT_COLUMNS = ("path", "qualified_name", "text")
"""What of a chunk such an encoder reads."""
_BATCH = 256
_T = TypeVar("_T")
_Made = TypeVar("_Made", covariant=True)


class Store(Protocol[_T]):
    """What an encoder made of texts, by their keys."""

    def get(self, keys: Sequence[bytes], /) -> Mapping[bytes, _T]:
        """What is there."""
        ...

    def put(self, entries: Iterable[tuple[bytes, _T]], /) -> None:
        """Add or replace in one transaction."""
        ...


class TextEncoder(Protocol[_Made]):
    """What reads the texts."""

    def encode_documents(self, texts: Sequence[str], /) -> Sequence[_Made]:
        """One for each text."""
        ...


def chunk_text(row: Mapping[str, str]) -> str:
    """What such an encoder reads of a chunk, by `TEXT_COLUMNS`."""
    return token_text(path=row["path"], qualified_name=row["qualified_name"], text=row["text"])[0]


def encode_parts(
    parts: Iterable[Part], seal: str, key_of: Callable[[Part], str], encode: Callable[[Sequence[str]], int]
) -> tuple[int, int]:
    """Encode the chunks of those parts that are not sealed with their key, and seal them.

    encode: sees that the store has what is made of the texts; returns of how many it had to be made.

    Returns how many chunks all parts hold, and how many texts were encoded.
    """
    chunks = encoded = 0
    for part in parts:
        key = key_of(part)
        chunks += sum(counts["chunks"] for counts in part.chunked()["facts"]["languages"].values())
        if sealed(part.folder, seal, key) is None:
            encoded += encode([chunk_text(row) for row in _rows(part.table("chunks"))])
            put_seal(part.folder, seal, key, [], {})
    return chunks, encoded


def fill_store(
    texts: Sequence[str], held: Store[_T], open_encoder: Callable[[], TextEncoder[_T]], progress: Progress, what: str
) -> int:
    """See that a store holds what is made of every text; returns how many were encoded.

    open_encoder: called when a text is missing. what: said of the progress.
    """
    by_key = {text_key(text): text for text in texts}
    keys = list(by_key)
    encoded = 0
    opened: TextEncoder[_T] | None = None
    for start in range(0, len(keys), _BATCH):
        part = keys[start : start + _BATCH]
        known = held.get(part)
        if missing := [key for key in part if key not in known]:
            opened = opened or open_encoder()
            held.put(zip(missing, opened.encode_documents([by_key[key] for key in missing]), strict=True))
            encoded += len(missing)
        progress(what, start + len(part), len(keys))
    return encoded


def stored(ids: NDArray[np.int64], keys: Sequence[bytes], held: Store[_T], what: str) -> Iterator[tuple[int, _T]]:
    """(chunk id, what is held for its key) in the order given, a few hundred in memory at a time.

    Raises SourceError: some are gone since they were made. what: their name for that.
    """
    for start in range(0, len(keys), _BATCH):
        part = keys[start : start + _BATCH]
        known = held.get(list(dict.fromkeys(part)))
        for chunk_id, key in zip(ids[start : start + _BATCH].tolist(), part, strict=True):
            if key not in known:
                raise SourceError(f"the {what} of chunk {chunk_id} are gone from the store", suggestion="run it again")
            yield chunk_id, known[key]


def link_index(index: Path, paths: BundlePaths, root: BundleRoot, held: Manifest) -> frozenset[str] | None:
    """Link all files of an index of CURRENT into a staged version; None when they cannot be.

    index: its folder in the staged version. Returns the paths that are links.
    """
    same = [entry for entry in held.files if entry.path.startswith(f"{index.name}/")]
    return frozenset(entry.path for entry in same) if link_all(root.version(held.version), paths, same) else None


def put_encoder(
    source: Path, index: Path, paths: BundlePaths, root: BundleRoot, held: Manifest | None
) -> frozenset[str]:
    """Copy the encoder of queries beside an index, its files linked to CURRENT where that has them.

    source: folder of the encoder. index: folder of the index in the staged version.

    Returns the paths that are links.
    """
    target = index / ENCODER_FOLDER
    below = f"{index.name}/{ENCODER_FOLDER}"
    names = EncoderSpec.load(source).sha256
    wanted = {f"{below}/{name}": sha256 for name, sha256 in names.items()}
    same: list[FileEntry] = []
    if held is not None:
        found = [entry for entry in held.files if wanted.get(entry.path) == entry.sha256]
        same = found if link_all(root.version(held.version), paths, found) else []
    linked = frozenset(entry.path for entry in same)
    for name in (*names, SPEC_FILE):
        if f"{below}/{name}" not in linked:
            shutil.copyfile(source / name, target / name)
    return linked


def texts_of(
    paths: BundlePaths, plan: Sequence[Shard], encode: Callable[[Sequence[str]], object]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """Ids of all chunks, (n,) ascending, and the key of the text of each.

    encode: given the texts of each shard, to see that the store has what is made of them.
    """
    ids: list[int] = []
    keys: list[bytes] = []
    for shard in plan:
        rows = _rows(paths.path / shard.table("chunks"))
        texts = [chunk_text(row) for row in rows]
        encode(texts)
        ids += [row["chunk_id"] for row in rows]
        keys += [text_key(text) for text in texts]
    order = np.argsort(np.array(ids, np.int64), kind="stable")
    return np.array(ids, np.int64)[order], [keys[row] for row in order.tolist()]


def _rows(chunks: Path) -> list[dict[str, Any]]:
    return read_table(chunks, ["chunk_id", *TEXT_COLUMNS]).to_pylist()
