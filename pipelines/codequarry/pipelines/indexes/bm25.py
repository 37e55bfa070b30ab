"""The lexical index: tantivy over analyzed fields, one segment or more for each shard.

tantivy takes a term's statistics over all segments of an index, so that scores are those of one big segment. It names
the files of a segment by a random UUID, and writes the same bytes for the same documents. Segments are therefore named
by their contents and listed in order: the index is reproducible byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import tantivy

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.serving.text.lexical import (
    BODY_FIELD,
    ID_FIELD,
    META_FILE,
    field_texts,
    indexed_values,
    open_searcher,
    remove_index_folder,
    tantivy_schema,
)
from codequarry.serving.text.term_list import TERMS_FILE, packed_terms

_HEAP_BYTES = 256_000_000
_COLUMNS = ("chunk_id", "path", "symbols", "qualified_name", "text")


class NewSegment(NamedTuple):
    """A segment of the index."""

    id: str
    documents: int


class _Segment(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def documents(self) -> int: ...


def write_segments(paths: BundlePaths, chunks: pa.Table) -> tuple[NewSegment, ...]:
    """Index chunks, in table order, into new segments of the version's index; `write_meta` makes them part of it.

    tantivy's own reader watches the folder it writes to, and may put a lock file there long after the commit. The index
    is therefore written beside the version, and its files are moved when they are complete.

    Args:
        paths: Paths of the version.
        chunks: At least one row of ``chunks``.

    Returns:
        The new segments by id.
    """
    scratch = scratch_folder(paths.path)
    scratch.mkdir()
    try:
        _write(scratch, chunks)
        found = json.loads((scratch / META_FILE).read_bytes())["segments"]
        segments = [
            _move_segment(scratch, each["segment_id"].replace("-", ""), each["max_doc"], paths.bm25) for each in found
        ]
    finally:
        remove_index_folder(scratch)
    return tuple(sorted(segments, key=lambda segment: segment.id))


def write_meta(paths: BundlePaths, segments: Iterable[_Segment]) -> None:
    """Make an index of the segments that lie in its folder, in this order, and list its terms."""
    scratch = scratch_folder(paths.path)
    scratch.mkdir()
    try:
        tantivy.Index(tantivy_schema(), path=str(scratch))
        meta = json.loads((scratch / META_FILE).read_bytes())
    finally:
        remove_index_folder(scratch)
    listed = list(segments)
    meta["segments"] = [
        {"segment_id": _uuid(segment.id), "max_doc": segment.documents, "deletes": None} for segment in listed
    ]
    meta["opstamp"] = 0
    names = [file.name for segment in listed for file in paths.bm25.glob(f"{segment.id}.*")]
    (paths.bm25 / META_FILE).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    (paths.bm25 / ".managed.json").write_text(json.dumps(sorted([*names, META_FILE])) + "\n", encoding="utf-8")
    _write_terms(paths.bm25)


def _write_terms(folder: Path) -> None:
    """Write the list of all terms of a complete index beside its segments."""
    searcher, _ = open_searcher(folder)
    terms = (term for term, _ in searcher.terms_with_prefix(BODY_FIELD, ""))
    (folder / TERMS_FILE).write_bytes(packed_terms(terms))


def scratch_folder(version: Path) -> Path:
    """Return the folder beside a version in which this process writes segments of its index."""
    return version.with_name(f"{version.name}.bm25.{os.getpid()}")


def _write(folder: Path, chunks: pa.Table) -> None:
    index = tantivy.Index(tantivy_schema(), path=str(folder))
    writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
    columns = [chunks[name].to_pylist() for name in _COLUMNS]
    for chunk_id, path, symbols, qualified_name, text in zip(*columns, strict=True):
        document = tantivy.Document()
        document.add_unsigned(ID_FIELD, chunk_id)
        texts = field_texts(path=path, symbols=symbols, qualified_name=qualified_name, text=text)
        for field, value in texts.items():
            for terms in indexed_values(value):
                document.add_text(field, terms)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


def _move_segment(scratch: Path, found: str, documents: int, target: Path) -> NewSegment:
    """Move the files of a segment, and name them by their contents."""
    files = sorted(scratch.glob(f"{found}.*"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.suffix}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    name = digest.hexdigest()[:32]
    for file in files:
        file.rename(target / (name + file.suffix))
    return NewSegment(name, documents)


def _uuid(name: str) -> str:
    return "-".join((name[:8], name[8:12], name[12:16], name[16:20], name[20:]))
