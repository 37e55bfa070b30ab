"""What speaks for files: by the query, and by what they are.

Factors are computed once for a version; evidence for each query, over all files at once.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from codequarry.schemas.file_index import FileIndex
from codequarry.schemas.ranking import ClassProfile, FactorProfile, RankingProfile
from codequarry.schemas.symbol_catalog import PATH_CLASSES
from codequarry.serving.directory import ChunkDirectory
from codequarry.serving.query import Query


class RankedFiles:
    """The files of a version as the ranking sees them; a file's number is its row in the index of files."""

    def __init__(self, index: FileIndex, directory: ChunkDirectory, profile: RankingProfile) -> None:
        self.profile = profile
        self._index = index
        self._rows = index.facts["row"].astype(np.int64)
        self._directory = directory
        self._classes = directory.class_rank[self._rows]
        self._products = self._without_fan_in()
        self._fan_in = np.log1p(index.facts["fan_in"].astype(np.float64))

    def factors(self, kind: ClassProfile) -> np.ndarray:
        """(f,) float64: of each file the product of `factors_of`."""
        return self._products * (1 + kind.fan_in * self._fan_in)

    def by(self, profile: RankingProfile) -> Self:
        """The same files by another profile."""
        return type(self)(self._index, self._directory, profile)

    def __len__(self) -> int:
        return len(self._rows)

    def files_of(self, chunk_ids: np.ndarray) -> np.ndarray:
        """Numbers of the files that chunks lie in. chunk_ids: (m,) int64, all of this version."""
        at = np.searchsorted(self._directory.chunk_ids, chunk_ids)
        return np.searchsorted(self._rows, self._directory.file_of[at])

    def first_chunks(self, files: np.ndarray) -> np.ndarray:
        """(m,) int64 ids of the first chunks of files. files: (m,) numbers."""
        return self._directory.by_row[self._directory.row_starts[self._rows[files]]]

    def evidence(self, query: Query, vector: np.ndarray | None) -> dict[str, np.ndarray]:
        """What the query says of every file: (f,) float64 in [0, 1] by the name of its weight.

        vector: of the query, (d,) float32; None when there is no dense channel.
        """
        cover, match = self._index.name_evidence(query.stems)
        found = {"name_cover": cover, "name_match": match}
        if vector is not None and len(vector) == self._index.dim:
            found["card"] = self._index.card_evidence(vector)
        return {name: values.astype(np.float64) for name, values in found.items()}

    def _without_fan_in(self) -> np.ndarray:
        """As `factors_of`, of all files at once: a version may have tens of thousands when it is opened."""
        facts, factors = self._index.facts, self.profile.factors
        of_class = [path_class_factor(name, factors).get(f"path_class:{name}", 1.0) for name in PATH_CLASSES]
        size = 1 + factors.size * np.log1p(facts["code_lines"].astype(np.float64))
        header = np.where(facts["header"], factors.header, 1.0)
        return np.array(of_class)[self._classes.astype(np.int64) - 1] * header * size

    def factors_of(self, file: int, kind: ClassProfile) -> dict[str, float]:
        """What a file's chunks and evidence are multiplied by, by rule; rules that change nothing are left out."""
        facts = self._index.facts[file]
        factors = self.profile.factors
        rules = {
            **path_class_factor(PATH_CLASSES[self._classes[file] - 1], factors),
            **header_factor(bool(facts["header"]), factors),
            **fan_in_factor(int(facts["fan_in"]), kind),
            **size_factor(int(facts["code_lines"]), factors),
        }
        return {rule: factor for rule, factor in rules.items() if factor != 1}


def path_class_factor(path_class: str, factors: FactorProfile) -> dict[str, float]:
    """Tests, examples, documentation and the like come after sources."""
    return {} if path_class == "source" else {f"path_class:{path_class}": getattr(factors, path_class)}


def header_factor(header: bool, factors: FactorProfile) -> dict[str, float]:
    """A C header comes after the file beside it that implements it."""
    return {"header_beside": factors.header} if header else {}


def fan_in_factor(fan_in: int, kind: ClassProfile) -> dict[str, float]:
    """What many files import is looked for more often."""
    return {f"fan_in:{fan_in}": 1 + kind.fan_in * math.log1p(fan_in)}


def size_factor(code_lines: int, factors: FactorProfile) -> dict[str, float]:
    """Long files do more."""
    return {f"code_lines:{code_lines}": 1 + factors.size * math.log1p(code_lines)}
