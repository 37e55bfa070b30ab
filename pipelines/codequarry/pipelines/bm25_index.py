"""The lexical index: tantivy over pre-analyzed fields."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import tantivy

from codequarry.pipelines.workspace import Progress, silent
from codequarry.schemas.analyzer import AnalyzedToken
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.lexical import ID_FIELD, field_tokens, remove_index_folder, tantivy_schema

_HEAP_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class Bm25Report:
    """What the index holds."""

    documents: int
    content_sha256: str
    """Digest over ids and tokens: tantivy names its files by UUID, so their bytes cannot be compared."""


def build_bm25(paths: BundlePaths, chunks: pa.Table, progress: Progress = silent) -> Bm25Report:
    """Index every chunk, in table order, into one segment.

    chunks: the ``chunks`` table sorted by chunk_id.

    tantivy's own reader watches the folder it writes to, and may put a lock file there long after the commit: the index
    is written beside the version, and its files are moved when they are complete.
    """
    scratch = scratch_folder(paths.path)
    scratch.mkdir()
    try:
        report = _write(scratch, chunks, progress)
        paths.bm25.mkdir()
        for file in scratch.iterdir():
            if file.suffix != ".lock":
                file.rename(paths.bm25 / file.name)
    finally:
        remove_index_folder(scratch)
    return report


def scratch_folder(version: Path) -> Path:
    """Where the index of a version is written, beside it."""
    return version.with_name(f"{version.name}.bm25")


def _write(folder: Path, chunks: pa.Table, progress: Progress) -> Bm25Report:
    index = tantivy.Index(tantivy_schema(), path=str(folder))
    writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
    digest = hashlib.sha256()
    columns = [chunks[name].to_pylist() for name in ("chunk_id", "path", "symbols", "qualified_name", "text")]
    total = chunks.num_rows
    for done, (chunk_id, path, symbols, qualified_name, text) in enumerate(zip(*columns, strict=True), start=1):
        document = tantivy.Document()
        document.add_unsigned(ID_FIELD, chunk_id)
        digest.update(b"%d\n" % chunk_id)
        tokens = field_tokens(path=path, symbols=symbols, qualified_name=qualified_name, text=text)
        for field, terms in tokens.items():
            document.add_pre_tokenized_text(field, _pre_tokenized(terms))
            digest.update("\x1f".join(f"{term.position}:{term.text}" for term in terms).encode() + b"\n")
        writer.add_document(document)
        if done % 512 == 0 or done == total:
            progress("bm25", done, total)
    writer.commit()
    writer.wait_merging_threads()
    return Bm25Report(total, digest.hexdigest())


def _pre_tokenized(terms: list[AnalyzedToken]) -> tantivy.PreTokenizedString:
    return tantivy.PreTokenizedString("", [tantivy.Token(term.text, term.position, 0, 0) for term in terms])
