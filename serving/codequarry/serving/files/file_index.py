"""File index for the ranking: the words of each file's name, its use, and the vector of its summary.

Arrays in ``files/`` of a version, memory-mapped by the reader, over the f files that are indexed, by repository and
path.

================ ================================================================================
names.txt        (w,) stems of the words of file names, sorted, a line each
offsets.npy      (w + 1,) int64: the postings of word i are from ``offsets[i]`` to ``offsets[i + 1]``
postings.npy     (p,) of file (int32), count (int32); files ascending
facts.npy        (f,) of row in ``files_mat``, words of the name, lines of code, importing files (int32), header (bool)
shards.npy       (f,) uint8: the shard of each, where there is more than one
cards.NN.npy     (m, d) float16, unit norm or zero: those of the files of a shard, in their order; without a number
                 where there is one shard
================ ================================================================================
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.serving.files.arrays import map_array
from codequarry.serving.text.analyzer import words
from codequarry.serving.text.stems import stem

_WORDS = "names.txt"
_ARRAYS = ("offsets", "postings", "facts")
_POSTING = np.dtype([("file", np.int32), ("count", np.int32)])
_FACTS = np.dtype(
    [(name, np.int32) for name in ("row", "words", "code_lines", "fan_in")] + [("header", np.bool_)],
)
_GENERIC = frozenset({"__init__", "index", "init", "mod", "lib", "main", "package"})
"""Names that say less than that of their folder."""
_PREFIX = 4
"""Letters from which one word may stand for another that it begins."""
_CARD_CHARS = 2_000
_NEIGHBOURS = 30
"""File summaries from this rank on are no evidence."""


class FileRow(NamedTuple):
    """Indexed file, as input of the index."""

    row: int
    """Row in ``files_mat``, which lists all files of the census by repository and path."""
    repo: str
    path: str
    fan_in: int
    """Files that import it."""
    code_lines: int


class IndexedFiles(Protocol):
    """Files of a version for the ranking, numbered by repository and path."""

    @property
    def facts(self) -> np.ndarray:
        """(f,) of the fields of ``facts.npy``, by ascending row."""
        ...

    @property
    def dim(self) -> int:
        """Length of a summary's vector."""
        ...

    def name_cover(self, stems: Collection[str]) -> np.ndarray:
        """Return the share of each file name's words that a query has; prefixes of words match as well.

        Args:
            stems: Stems of the query's words.

        Returns:
            (f,) float32.
        """
        ...

    def similarity(self, vector: np.ndarray) -> np.ndarray:
        """Return the similarity of the file summaries to a query's vector: (f,) float32."""
        ...


@dataclass(frozen=True)
class FileIndex:
    """Arrays described in the module docstring."""

    names: tuple[str, ...]
    offsets: np.ndarray
    postings: np.ndarray
    facts: np.ndarray
    cards: dict[int, np.ndarray]
    """Vectors of file summaries by number of the shard."""
    shards: np.ndarray
    _files: dict[int, np.ndarray] = field(init=False)
    """Numbers of the files of each shard's summaries."""

    def __post_init__(self) -> None:
        files = {number: np.flatnonzero(self.shards == number) for number in np.unique(self.shards).tolist()}
        object.__setattr__(self, "_files", files)

    @property
    def dim(self) -> int:
        """Length of a summary's vector."""
        return next((cards.shape[1] for cards in self.cards.values()), 0)

    @classmethod
    def build(cls, files: Sequence[FileRow], cards: np.ndarray, shards: Sequence[int] | None = None) -> Self:
        """Build the index of a version's files.

        Args:
            files: Files by row.
            cards: (f, d) float32: vectors of the file summaries.
            shards: Shard of each file; None for one shard.

        Returns:
            The index.
        """
        numbers = np.array(shards if shards is not None else [0] * len(files), np.uint8)
        found = [[stem(word) for word in name_words(file.path)] for file in files]
        by_word: dict[str, list[tuple[int, int]]] = {}
        for number, stems in enumerate(found):
            for word, count in Counter(stems).items():
                by_word.setdefault(word, []).append((number, count))
        names = sorted(by_word)
        postings = [posting for word in names for posting in by_word[word]]
        lengths = [len(by_word[word]) for word in names]
        fan_in = _shared_fan_in(files)
        headers = headers_beside(f"{file.repo}/{file.path}" for file in files)
        facts = [
            (file.row, len(stems), file.code_lines, fan, f"{file.repo}/{file.path}" in headers)
            for stems, file, fan in zip(found, files, fan_in, strict=True)
        ]
        return cls(
            tuple(names),
            np.cumsum([0, *lengths], dtype=np.int64),
            np.array(postings, _POSTING),
            np.array(facts, _FACTS),
            {number: np.array(cards[numbers == number], np.float16) for number in np.unique(numbers).tolist()},
            numbers,
        )

    def write(self, folder: Path) -> None:
        """Write the files; equal indexes give equal bytes."""
        folder.mkdir()
        (folder / _WORDS).write_text("".join(f"{word}\n" for word in self.names), encoding="utf-8")
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if self.cards.keys() <= {0}:
            arrays["cards"] = self.cards.get(0, np.empty((0, 0), np.float16))
        else:
            arrays |= {"shards": self.shards} | {f"cards.{number:02}": cards for number, cards in self.cards.items()}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)

    @classmethod
    def open(cls, folder: Path, rows: np.ndarray, dim: int) -> Self:
        """Map a version's index.

        Args:
            folder: Folder ``files/`` of the version.
            rows: (f,): rows of the indexed files, ascending.
            dim: Length of the encoder's vectors.

        Returns:
            The mapped index.

        Raises:
            UnavailableError: The index is missing, or does not fit the version.
        """
        try:
            names = tuple((folder / _WORDS).read_text(encoding="utf-8").split("\n")[:-1])
            offsets, postings, facts = (_mapped(folder, name) for name in _ARRAYS)
            if (folder / "shards.npy").exists():
                shards = _mapped(folder, "shards")
                cards = {number: _mapped(folder, f"cards.{number:02}") for number in np.unique(shards).tolist()}
            else:
                shards, cards = np.zeros(len(rows), np.uint8), {0: _mapped(folder, "cards")}
        except (OSError, ValueError, IntegrityError) as error:
            raise UnavailableError("the version has no index of its files, or a damaged one") from error
        found = cls(names, offsets, postings, facts, cards, shards)
        if not found._fits(rows, dim):
            raise UnavailableError(f"the index of files is not one of these {len(rows)} files in {dim} dimensions")
        return found

    def _fits(self, rows: np.ndarray, dim: int) -> bool:
        files = len(rows)
        kinds = (self.offsets.dtype, self.facts.dtype, self.shards.dtype)
        return (
            kinds == (np.int64, _FACTS, np.uint8)
            and self.postings.dtype == _POSTING
            and self.offsets.shape == (len(self.names) + 1,)
            and (not len(self.offsets) or self.offsets[-1] == len(self.postings))
            and self.facts.shape == (files,)
            and np.array_equal(self.facts["row"], rows)
            and self.shards.shape == (files,)
            and all(self.cards[number].dtype == np.float16 for number in self.cards)
            and all(self.cards[number].shape == (len(own), dim) for number, own in self._files.items())
            and (not len(self.postings) or 0 <= self.postings["file"].min() <= self.postings["file"].max() < files)
        )

    @cached_property
    def _vectors(self) -> np.ndarray:
        """Vectors of the file summaries in one array, (f, d) float32; NumPy is slow at float16."""
        found = np.empty((len(self.facts), self.dim), np.float32)
        for number, files in self._files.items():
            found[files] = self.cards[number]
        return found

    def name_cover(self, stems: Collection[str]) -> np.ndarray:
        """Return the cover of each file's name, see `IndexedFiles`."""
        cover = np.zeros(len(self.facts), np.float32)
        for number in sorted({near for word in stems for near in self._near(word)}):
            posted = self.postings[self.offsets[number] : self.offsets[number + 1]]
            cover[posted["file"]] += posted["count"]
        return cover / np.maximum(self.facts["words"], 1).astype(np.float32)

    def similarity(self, vector: np.ndarray) -> np.ndarray:
        """Return the similarity of each file's summary, see `IndexedFiles`."""
        return self._vectors @ vector

    def _near(self, word: str) -> Iterable[int]:
        """Return numbers of the words that equal this one, start with it, or are a prefix of it."""
        at = bisect_left(self.names, word)
        if len(word) < _PREFIX:
            return range(at, at + 1) if at < len(self.names) and self.names[at] == word else ()
        found = list(range(at, bisect_left(self.names, word + "\U0010ffff")))
        for length in range(_PREFIX, len(word)):
            short = bisect_left(self.names, word[:length])
            if short < len(self.names) and self.names[short] == word[:length]:
                found.append(short)
        return found


def nearest_cards(similarity: np.ndarray) -> np.ndarray:
    """Select the similarities, (f,), that `card_evidence` needs of each bundle to scale those of several."""
    count = min(_NEIGHBOURS + 1, len(similarity))
    return -np.partition(-similarity, count - 1)[:count] if count else similarity


def card_evidence(similarity: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
    """Scale the similarity of file summaries to a query so that the best is 1, and rank `_NEIGHBOURS` is 0.

    Args:
        similarity: (f,) float32.
        among: (m,) the largest similarities of all bundles; None for a bundle alone.

    Returns:
        (f,) float32 in [0, 1].
    """
    among = similarity if among is None else among
    if len(among) < 2:
        return np.ones(len(similarity), np.float32)
    rank = min(_NEIGHBOURS, len(among) - 1)
    floor = float(-np.partition(-among, rank)[rank])
    best = float(among.max())
    return np.clip((similarity - floor) / max(best - floor, 1e-6), 0, 1)


def _mapped(folder: Path, name: str) -> np.ndarray:
    return map_array(folder / f"{name}.npy")


def name_words(path: str) -> list[str]:
    """Return the words of a file's name without its suffix, in lower case; of the folder's for a generic file name.

    >>> name_words("src/http/request_parser.py"), name_words("serde/src/de/mod.rs")
    (['request', 'parser'], ['de'])
    """
    file = PurePosixPath(path)
    name = file.stem or file.name
    name = file.parent.name if name in _GENERIC and file.parent.name else name
    return [word.text.lower() for word in words(name)]


def card_text(path: str, doc: str, names: Iterable[str]) -> str:
    """Return the summary of a file that the dense encoder reads.

    Args:
        path: Path of the file.
        doc: Text at the top of the file.
        names: Names of its outer definitions, in order.

    Returns:
        The summary.
    """
    return f"{path}\n{doc}\n{' '.join(dict.fromkeys(names))}"[:_CARD_CHARS]


def headers_beside(paths: Iterable[str]) -> frozenset[str]:
    """Select the C headers that lie beside the file that implements them.

    >>> sorted(headers_beside(["lib/mime.c", "lib/mime.h", "lib/curl.h"]))
    ['lib/mime.h']
    """
    found = set(paths)
    return frozenset(path for path in found if path.endswith(".h") and f"{path[:-2]}.c" in found)


def _shared_fan_in(files: Sequence[FileRow]) -> list[int]:
    """Count the files that import each file; an import of a C header counts for the .c file beside it as well."""
    fan_in = {(file.repo, file.path): file.fan_in for file in files}
    return [
        max(file.fan_in, fan_in.get((file.repo, f"{file.path[:-2]}.h"), 0)) if file.path.endswith(".c") else file.fan_in
        for file in files
    ]
