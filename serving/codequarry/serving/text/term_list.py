"""All terms of a lexical index in one text, in which those that hold a part of a word are found.

The dictionary of an index finds a term by its beginning. For ``pool`` in ``thread_pool_size`` it would have to be read
as a whole, which takes .3 seconds at 474,000 chunks; here it takes milliseconds. Beside the segments lies
``terms.zlib``: the distinct terms of the body in the order of their bytes, a line each, compressed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.text.analyzer import MAX_TOKEN_CHARS, Fragment

TERMS_FILE = "terms.zlib"
_LARGEST = 1 << 28
"""Bytes of terms that are believed: the file may come from elsewhere, and is inflated whole."""
_HELD = 8
"""Lists that stay in memory, 1 MB for 31,000 chunks and 10 MB for 474,000. A delta version adds one to its base's."""
_CUT = re.compile(rb"(?<=\n)[^\n]{%d,}" % MAX_TOKEN_CHARS)
"""Terms that may be the beginning of a longer word."""


def packed_terms(terms: Iterable[str]) -> bytes:
    """Return the content of ``terms.zlib``.

    Args:
        terms: Terms without line breaks, in any order.

    Returns:
        The bytes; the same terms give the same.
    """
    return zlib.compress(b"\n".join(sorted(term.encode() for term in terms)), 6)


class TermList:
    """Distinct terms of a lexical index.

    Args:
        packed: Content of ``terms.zlib``.

    Raises:
        UnavailableError: It is damaged.
    """

    def __init__(self, packed: bytes) -> None:
        inflater = zlib.decompressobj()
        try:
            data = inflater.decompress(packed, _LARGEST)
        except zlib.error as error:
            raise UnavailableError(f"{TERMS_FILE} is damaged") from error
        if not inflater.eof:
            raise UnavailableError(f"{TERMS_FILE} is damaged")
        self._data = b"\n" + data + b"\n"
        self._cut = [term.decode("utf-8", "replace") for term in _CUT.findall(self._data)]

    @classmethod
    def open(cls, folder: Path) -> TermList | None:
        """Return the list of an index; the last ones are kept.

        Args:
            folder: Folder of the index.

        Returns:
            The list; None for an index of before there were lists.

        Raises:
            UnavailableError: It cannot be read, or is damaged.
        """
        file = folder / TERMS_FILE
        try:
            state = file.stat()
            return _read_list(file, state.st_ino, state.st_mtime_ns)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnavailableError(f"{TERMS_FILE} cannot be read: {error.strerror}") from error

    def holding(self, fragment: Fragment, most: int) -> list[str] | None:
        """Find the terms of words that hold a fragment.

        Args:
            fragment: What the words hold.
            most: More terms are not returned.

        Returns:
            The terms, and those that are cut where the fragment may stand behind their end; None for more than
            ``most``.
        """
        data = self._data
        wanted = b"\n" * fragment.starts + fragment.text.encode() + b"\n" * fragment.ends
        found = [] if fragment.starts else self._cut.copy()
        at = data.find(wanted)
        while at >= 0:
            if len(found) == most:
                return None
            first = data.rfind(b"\n", 0, at + 1) + 1
            end = data.index(b"\n", first)
            found.append(data[first:end].decode("utf-8", "replace"))
            at = data.find(wanted, end)
        return list(dict.fromkeys(found))


@lru_cache(maxsize=_HELD)
def _read_list(file: Path, _inode: int, _changed_ns: int) -> TermList:
    return TermList(file.read_bytes())
