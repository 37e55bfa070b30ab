"""BM25 index definition shared by build and query: its fields, and the terms of a chunk in each.

A word of the body is indexed as written, in its parts, and by its stem: questions are searched by stems, identifiers as
they are written. There is no field of qualified names: it had no value once names were matched separately.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.text.analyzer import source_tokens, terms_of
from codequarry.serving.text.stems import stem

if TYPE_CHECKING:
    import numpy as np
    import tantivy

BODY_FIELD = "body"
FIELDS = ("path", "name", BODY_FIELD)
ID_FIELD = "chunk_id"
META_FILE = "meta.json"
"""tantivy's list of the segments of an index."""


def tantivy_schema() -> tantivy.Schema:
    """Return the schema: text fields, whose terms stand between spaces, and the chunk id; nothing is stored.

    Only the body is searched for phrases, so that it alone has positions.
    """
    import tantivy

    builder = tantivy.SchemaBuilder()
    for field in FIELDS:
        option = "position" if field == BODY_FIELD else "freq"
        builder.add_text_field(field, stored=False, tokenizer_name="whitespace", index_option=option)
    builder.add_unsigned_field(ID_FIELD, stored=False, indexed=True, fast=True)
    return builder.build()


_IN_MEMORY = "/dev/shm"
_PROBE = "Größe parsing.getHTTPResponse2(max_file_bytes, 0x1f) -> 3.14 != __init__ :: 日本語 x" + "y" * 200


def lexical_fingerprint() -> str:
    """Return the sha256 in hex of what index and query must compute alike: fields, and the analysis of a probe text."""
    parts = [FIELDS, ID_FIELD, indexed_values(_PROBE)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def field_texts(*, path: str, symbols: Iterable[str], qualified_name: str, text: str) -> dict[str, str]:
    """Return the text of each text field of a chunk, of which `indexed_values` are indexed.

    The name fields hold the definition the chunk is, or lies in, and those that start in it.
    """
    names = dict.fromkeys((*((qualified_name,) if qualified_name else ()), *symbols))
    return {"path": path, "name": " ".join(dict.fromkeys(name.rsplit(".", 1)[-1] for name in names)), BODY_FIELD: text}


def indexed_values(text: str) -> tuple[str, str]:
    """Return the index terms of a text as the two values of a field, for tantivy to split at spaces.

    A phrase is looked up by its words, which stand beside each other in the first value. A term of its own at the
    position of its word would have to be made one by one, at more than twice the cost of an index.

    >>> indexed_values("open(max_sessions)")
    ('open max_sessions', 'max sessions session')

    Args:
        text: Text of a field.

    Returns:
        Identifiers, numbers and operators in lower case, in order; then parts of identifiers and stems, in order.
    """
    terms = list(map(_terms_and_stems, source_tokens(text)))
    return " ".join([each[0] for each in terms]), " ".join(chain.from_iterable([each[1:] for each in terms]))


def distinct_terms(text: str) -> set[str]:
    """Return the terms of `indexed_values`, each once."""
    found: set[str] = set()
    return found.union(*map(_terms_and_stems, set(source_tokens(text))))


@lru_cache(maxsize=32_768)
def _terms_and_stems(token: str) -> tuple[str, ...]:
    whole, *parts = terms_of(token)
    return tuple(dict.fromkeys((whole, *parts, *map(stem, parts or (whole,)))))


def dense_text(*, path: str, qualified_name: str, symbols: Iterable[str], signature: str, text: str) -> str:
    """Return the text of a chunk for the dense encoder: a header of path and qualified name, then the text.

    A later part of a definition, which does not hold its beginning, gets the signature into the header as well. Without
    the header dense retrieval loses .11 to .14 nDCG@10 on held-out repositories.

    >>> dense_text(path="a.py", qualified_name="f", symbols=[], signature="def f(x)", text="    return x")
    'a.py f\\ndef f(x)\\n    return x'
    """
    header = f"{path} {qualified_name}".strip()
    lines = [header, text] if not signature or qualified_name in symbols else [header, signature, text]
    return "\n".join(lines)


def open_searcher(*folders: Path) -> tuple[tantivy.Searcher, tantivy.Schema]:
    """Map an index for reading, or several as one, which then has common statistics.

    tantivy needs a writable folder for its lock file, and a bundle must not be changed. So the index is opened through
    a temporary folder of symbolic links. The maps outlive that folder, so it is removed right after.

    Args:
        *folders: Folder of each index.

    Returns:
        Searcher and schema.

    Raises:
        UnavailableError: The folder is not an index, or not one with our fields.
    """
    import tantivy

    try:
        links = _links_folder()
    except OSError as error:
        raise UnavailableError(f"no temporary folder to open it through: {error.strerror}") from error
    try:
        _link_index(folders, links)
        index = tantivy.Index.open(str(links))
        # The folder is not watched for commits: a published index never changes.
        index.config_reader("manual")
        searcher = index.searcher()
        for field in FIELDS:
            tantivy.Query.term_query(index.schema, field, "probe")
    except BaseException as error:
        # A Rust panic is not an Exception: uncaught, it would end the thread, or the whole server.
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        raise UnavailableError("the index is damaged or of another format") from error
    finally:
        remove_index_folder(links)
    return searcher, index.schema


def indexed_ids(folder: Path) -> np.ndarray:
    """Return the ids of an index's documents.

    Args:
        folder: Folder of the index.

    Returns:
        (n,) int64 in no order.

    Raises:
        UnavailableError: As `open_searcher`.
    """
    import numpy as np
    import tantivy

    searcher, _ = open_searcher(folder)
    try:
        hits = searcher.search(tantivy.Query.all_query(), limit=max(1, searcher.num_docs)).hits
        values = searcher.fast_field_values(ID_FIELD, [address for _, address in hits])
    except BaseException as error:
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        raise UnavailableError("the index is damaged or of another format") from error
    return np.array([value or 0 for value in values], np.int64)


def _link_index(folders: Sequence[Path], links: Path) -> None:
    """Make one index of the segments of several; a segment that two of them have is equal in both."""
    files = {file.name: file for folder in folders for file in folder.resolve().iterdir()}
    described = [json.loads((folder / META_FILE).read_bytes()) for folder in folders[1:]]
    for name, file in files.items():
        if name != META_FILE or not described:
            (links / name).symlink_to(file)
    if described:
        whole = json.loads((folders[0] / META_FILE).read_bytes())
        segments = [segment for each in (whole, *described) for segment in each["segments"]]
        whole["segments"] = list({segment["segment_id"]: segment for segment in segments}.values())
        (links / META_FILE).write_text(json.dumps(whole), encoding="utf-8")


def _links_folder() -> Path:
    """Make a new folder, in memory if possible: links to 200 files cost a millisecond there, not 100."""
    with suppress(OSError):
        return Path(tempfile.mkdtemp(prefix="codequarry-", dir=_IN_MEMORY))
    return Path(tempfile.mkdtemp(prefix="codequarry-"))


def remove_index_folder(links: Path) -> None:
    """Remove the folder of links, into which tantivy's first reader may put a lock file again when it closes."""
    for _ in range(100):
        shutil.rmtree(links, ignore_errors=True)
        if not links.exists():
            return
        time.sleep(0.005)
