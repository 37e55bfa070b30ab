"""Evidence for files: from the query, and from properties of the files.

Factors are computed once for a version, evidence for each query; both over all files at once.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Self

import numpy as np

from codequarry.schemas.catalog.symbol_views import PATH_CLASSES
from codequarry.schemas.ranking_profile import ClassProfile, FactorProfile, RankingProfile
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.files.file_index import IndexedFiles, card_evidence, nearest_cards
from codequarry.serving.text.analyzer import words
from codequarry.serving.text.query_classes import PROSE, Query
from codequarry.serving.text.stems import stem

_PASTED = frozenset({"code", "literal"})
"""Classes of queries whose words somebody else chose."""


class RankedFiles:
    """Files of a version for the ranking; a file's number is its row in the index of files."""

    def __init__(self, index: IndexedFiles, directory: ChunkDirectory, profile: RankingProfile) -> None:
        self.profile = profile
        self.index = index
        self._rows = index.facts["row"].astype(np.int64)
        self._directory = directory
        self._classes = directory.class_rank[self._rows]
        self._products = self._without_fan_in(for_tests=False)
        self._fan_in = np.log1p(index.facts["fan_in"].astype(np.float64))
        # A file that the caller may not see is of the repository "", which no query names.
        numbers = {repo: number for number, repo in enumerate((*directory.repo_names, ""))}
        self._repo_of = np.array([numbers[directory.repos[row]] for row in self._rows.tolist()], np.int64)
        self._repo_words = [frozenset(word.text.lower() for word in words(repo)) for repo in numbers]

    @cached_property
    def _products_for_tests(self) -> np.ndarray:
        return self._without_fan_in(for_tests=True)

    def factors(self, kind: ClassProfile, others: np.ndarray, *, for_tests: bool = False) -> np.ndarray:
        """Return the product of `factors_of` for each file.

        Args:
            kind: Profile of the query's class.
            others: (f,) bool, see `of_other_repositories`.
            for_tests: The query asks for tests.

        Returns:
            (f,) float64.
        """
        products = self._products_for_tests if for_tests else self._products
        products = products * (1 + kind.fan_in * self._fan_in)
        return products * np.where(others, self.profile.factors.other_repository, 1.0)

    def names_any(self, query: Query) -> bool:
        """Return true when the query names a repository of this bundle."""
        return bool(self._names_in(query).any())

    def of_other_repositories(self, query: Query, *, elsewhere: bool = False) -> np.ndarray:
        """Select the files outside of the repositories that the query names.

        The query names a repository when it has all words of its name; a text that is quoted or pasted names none.

        Args:
            query: Analyzed query.
            elsewhere: It names a repository of another bundle that is asked as well.

        Returns:
            (f,) bool, all False when the query names no repository.
        """
        named = self._names_in(query)
        return (~named & (elsewhere or named.any()))[self._repo_of]

    def _names_in(self, query: Query) -> np.ndarray:
        if query.kind in _PASTED:
            return np.zeros(len(self._repo_words), np.bool_)
        return np.array([bool(name) and name <= query.words for name in self._repo_words], np.bool_)

    def _stems_of_named(self, query: Query) -> frozenset[str]:
        """Return the stems of words that name a repository, and so tell none of its files from another."""
        if query.kind not in {*PROSE, "issue"}:
            return frozenset()
        named = [self._repo_words[at] for at in np.flatnonzero(self._names_in(query)).tolist()]
        return frozenset(map(stem, frozenset[str]().union(*named)))

    def by(self, profile: RankingProfile) -> Self:
        """Return the same files with another profile."""
        return type(self)(self.index, self._directory, profile)

    def __len__(self) -> int:
        return len(self._rows)

    def files_of(self, chunk_ids: np.ndarray) -> np.ndarray:
        """Return the numbers of the files that chunks lie in.

        Args:
            chunk_ids: (m,) int64, all of this version.

        Returns:
            (m,) numbers of files.
        """
        at = np.searchsorted(self._directory.chunk_ids, chunk_ids)
        return np.searchsorted(self._rows, self._directory.file_of[at])

    def importing_files(self) -> np.ndarray:
        """Return how many files import each file of the directory: (files,) int64."""
        counts = np.zeros(len(self._directory.paths), np.int64)
        counts[self._rows] = self.index.facts["fan_in"]
        return counts

    def first_chunks(self, files: np.ndarray) -> np.ndarray:
        """Return the ids of the first chunks of files.

        Args:
            files: (m,) numbers.

        Returns:
            (m,) int64 ids.
        """
        return self._directory.by_row[self._directory.first_rows[self._rows[files]]]

    def nearest_cards(self, vector: np.ndarray | None) -> np.ndarray:
        """Return the largest similarities of file summaries to a query's vector: (m,) float32, empty without one."""
        if vector is None or len(vector) != self.index.dim:
            return np.empty(0, np.float32)
        return nearest_cards(self.index.similarity(vector))

    def evidence(
        self, query: Query, vector: np.ndarray | None, cards: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """Compute the evidence of the query for every file.

        Args:
            query: Analyzed query.
            vector: (d,) float32, vector of the query; None without a dense channel.
            cards: (m,) what `nearest_cards` returns for all bundles that are asked; None for a bundle alone.

        Returns:
            (f,) float64 in [0, 1], by the name of its weight.
        """
        found = {"name_cover": self.index.name_cover(query.stems - self._stems_of_named(query))}
        if vector is not None and len(vector) == self.index.dim:
            found["card"] = card_evidence(self.index.similarity(vector), cards)
        return {name: values.astype(np.float64) for name, values in found.items()}

    def _without_fan_in(self, *, for_tests: bool) -> np.ndarray:
        """Compute `factors_of` without fan-in for all files at once.

        A version may have tens of thousands of files when it is opened.
        """
        facts, factors = self.index.facts, self.profile.factors
        of_class = [math.prod(path_class_factor(name, factors, for_tests=for_tests).values()) for name in PATH_CLASSES]
        size = 1 + factors.size * np.log1p(facts["code_lines"].astype(np.float64))
        header = np.where(facts["header"], factors.header, 1.0)
        return np.array(of_class)[self._classes.astype(np.int64) - 1] * header * size

    def factors_of(self, file: int, kind: ClassProfile, *, other: bool, for_tests: bool = False) -> dict[str, float]:
        """Return the factors of a file's chunks and evidence, by rule; factors of 1 are left out.

        Args:
            file: Number of the file.
            kind: Profile of the query's class.
            other: The file belongs to another repository than the query names.
            for_tests: The query asks for tests.

        Returns:
            Factors by rule.
        """
        facts = self.index.facts[file]
        factors = self.profile.factors
        rules = {
            **path_class_factor(PATH_CLASSES[self._classes[file] - 1], factors, for_tests=for_tests),
            **header_factor(bool(facts["header"]), factors),
            **fan_in_factor(int(facts["fan_in"]), kind),
            **size_factor(int(facts["code_lines"]), factors),
            **repository_factor(other, factors),
        }
        return {rule: factor for rule, factor in rules.items() if factor != 1}


def path_class_factor(path_class: str, factors: FactorProfile, *, for_tests: bool = False) -> dict[str, float]:
    """Return the factors that rank tests, examples, documentation and the like below sources.

    A query that asks for tests ranks all others below tests.
    """
    if for_tests and path_class == "test":
        return {}
    of_class = {} if path_class == "source" else {f"path_class:{path_class}": getattr(factors, path_class)}
    return of_class | {"no_test": factors.no_test} if for_tests else of_class


def header_factor(header: bool, factors: FactorProfile) -> dict[str, float]:
    """Return the factor that ranks a C header below the file beside it that implements it."""
    return {"header_beside": factors.header} if header else {}


def fan_in_factor(fan_in: int, kind: ClassProfile) -> dict[str, float]:
    """Return the factor that ranks files higher when many files import them."""
    return {f"fan_in:{fan_in}": 1 + kind.fan_in * math.log1p(fan_in)}


def size_factor(code_lines: int, factors: FactorProfile) -> dict[str, float]:
    """Return the factor that ranks long files higher, because they do more."""
    return {f"code_lines:{code_lines}": 1 + factors.size * math.log1p(code_lines)}


def repository_factor(other: bool, factors: FactorProfile) -> dict[str, float]:
    """Return the factor that ranks files of other repositories lower when the query names one."""
    return {"other_repository": factors.other_repository} if other else {}
