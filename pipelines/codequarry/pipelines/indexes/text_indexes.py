"""Common parts of indexes over the texts of chunks: texts, the store of an encoder's results, the encoder beside them.

Finished texts are kept every few hundred, so that a killed run resumes where it stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.embed.overlap import WriteBehind, read_ahead
from codequarry.pipelines.store.links import link_all
from codequarry.pipelines.store.parts import Part, Shard, put_seal, sealed
from codequarry.pipelines.store.vectors import text_key
from codequarry.pipelines.store.workspace import Progress
from codequarry.pipelines.syntax.stage import restore_chunks
from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import FileEntry, Manifest
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import SPEC_FILE, EncoderSpec
from codequarry.serving.encoders.tokens import token_text

TEXT_COLUMNS = ("path", "qualified_name", "text")
"""Columns of a chunk that such an encoder reads."""
_BATCH, _BATCH_ON_GPU = 256, 4_096
_T = TypeVar("_T")
_Made = TypeVar("_Made", covariant=True)


class Store(Protocol[_T]):
    """Results of an encoder by the keys of texts."""

    def get(self, keys: Sequence[bytes], /) -> Mapping[bytes, _T]:
        """Return the results that are there."""
        ...

    def put(self, entries: Iterable[tuple[bytes, _T]], /) -> None:
        """Add or replace results in one transaction."""
        ...


class TextEncoder(Protocol[_Made]):
    """Encoder of the texts."""

    def encode_documents(self, texts: Sequence[str], /) -> Sequence[_Made]:
        """Return one result for each text."""
        ...


def chunk_text(row: Mapping[str, str]) -> str:
    """Return the text that such an encoder reads of a chunk, by `TEXT_COLUMNS`."""
    return token_text(path=row["path"], qualified_name=row["qualified_name"], text=row["text"])[0]


def encode_parts(
    parts: Iterable[Part],
    seal: str,
    key_of: Callable[[Part], str],
    encode: Callable[[Sequence[str]], int],
    settings: Settings,
    *,
    on_gpu: bool = False,
) -> tuple[int, int]:
    """Encode the chunks of parts without a completion marker of their key, and write the marker.

    Args:
        parts: Parts of the work folder.
        seal: Name of the completion marker.
        key_of: Returns the key of a part.
        encode: Makes sure that the store holds the results of texts, and returns how many it encoded.
        settings: Settings of the run.
        on_gpu: Read the next part while one is encoded.

    Returns:
        Number of chunks in all parts, and number of texts that were encoded.
    """
    chunks = encoded = 0
    todo: list[tuple[Part, str]] = []
    for part in parts:
        key = key_of(part)
        chunks += part.chunk_count()
        if sealed(part.folder, seal, key) is None:
            todo.append((part, key))
    restore_chunks((part for part, _ in todo), settings)
    for (part, key), texts in read_ahead(_part_texts, todo, overlap=on_gpu):
        encoded += encode(texts)
        put_seal(part.folder, seal, key, [], {})
    return chunks, encoded


def fill_store(
    texts: Sequence[str],
    held: Store[_T],
    open_encoder: Callable[[], TextEncoder[_T]],
    progress: Progress,
    what: str,
    *,
    on_gpu: bool = False,
) -> int:
    """Make sure that a store holds the results of every text.

    Args:
        texts: Texts to encode.
        held: The store.
        open_encoder: Called when a text is missing.
        progress: Told of the texts done.
        what: Name of the work in the progress.
        on_gpu: Give the encoder a few thousand texts at a time, the longest first, and look up and store others
            meanwhile.

    Returns:
        Number of texts that were encoded.
    """
    by_key = {text_key(text): text for text in texts}
    keys, size = list(by_key), _BATCH_ON_GPU if on_gpu else _BATCH
    if on_gpu:
        keys.sort(key=lambda key: -len(by_key[key]))
    encoded = done = 0
    opened: TextEncoder[_T] | None = None
    batches = [keys[start : start + size] for start in range(0, len(keys), size)]
    with WriteBehind(overlap=on_gpu) as behind:
        for part, known in read_ahead(held.get, batches, overlap=on_gpu):
            if missing := [key for key in part if key not in known]:
                opened = opened or open_encoder()
                made = opened.encode_documents([by_key[key] for key in missing])
                behind.put(partial(held.put, list(zip(missing, made, strict=True))))
                encoded += len(missing)
            done += len(part)
            progress(what, done, len(keys))
    return encoded


def stored(ids: NDArray[np.int64], keys: Sequence[bytes], held: Store[_T], what: str) -> Iterator[tuple[int, _T]]:
    """Yield chunk ids with the stored result of their key, in the order given, a few hundred in memory at a time.

    Args:
        ids: Ids of chunks, (n,) int64.
        keys: Key of the text of each chunk.
        held: The store.
        what: Name of the results in the error's message.

    Yields:
        A chunk id and its result.

    Raises:
        SourceError: Some results have disappeared from the store.
    """
    for start in range(0, len(keys), _BATCH):
        part = keys[start : start + _BATCH]
        known = held.get(list(dict.fromkeys(part)))
        for chunk_id, key in zip(ids[start : start + _BATCH].tolist(), part, strict=True):
            if key not in known:
                raise SourceError(f"the {what} of chunk {chunk_id} are gone from the store", suggestion="run it again")
            yield chunk_id, known[key]


def link_index(index: Path, paths: BundlePaths, root: BundleRoot, held: Manifest) -> frozenset[str] | None:
    """Link all files of an index of CURRENT into a staged version.

    Args:
        index: Folder of the index in the staged version.
        paths: Paths of the staged version.
        root: Bundle root.
        held: Manifest of CURRENT.

    Returns:
        Paths that are links; None when the files cannot be linked.
    """
    same = [entry for entry in held.files if entry.path.startswith(f"{index.name}/")]
    return frozenset(entry.path for entry in same) if link_all(root.version(held.version), paths, same) else None


def put_encoder(
    source: Path, index: Path, paths: BundlePaths, root: BundleRoot, held: Manifest | None
) -> frozenset[str]:
    """Copy the encoder of queries beside an index; files that CURRENT has are links to it.

    Args:
        source: Folder of the encoder.
        index: Folder of the index in the staged version.
        paths: Paths of the staged version.
        root: Bundle root.
        held: Manifest of CURRENT; None when there is none.

    Returns:
        Paths that are links.
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
    """Return the ids of all chunks, (n,) ascending, and the key of the text of each.

    Args:
        paths: Paths of the version.
        plan: All its shards.
        encode: Called with the texts of each shard; makes sure that the store holds their results.

    Returns:
        Ids and keys.
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


def _part_texts(todo: tuple[Part, str]) -> list[str]:
    return [chunk_text(row) for row in _rows(todo[0].table("chunks"))]


def _rows(chunks: Path) -> list[dict[str, Any]]:
    return read_table(chunks, ["chunk_id", *TEXT_COLUMNS]).to_pylist()
