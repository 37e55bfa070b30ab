"""Tests that a change may break: by calls, by imports and by names, each with its reason."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from codequarry.schemas.catalog.symbol_views import PATH_CLASSES
from codequarry.schemas.wire.symbols import Evidence
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.analyzer import analyze, whole
from codequarry.serving.tools.naming.meanings import CERTAINTY
from codequarry.serving.tools.relations.targets import RelationTarget
from codequarry.serving.tools.relations.walk import Expand, RelationStep, walk
from codequarry.serving.version.open import Bundle

_TEST = PATH_CLASSES.index("test") + 1
_CALLS = {"exact": 4.0, "resolved": 3.0, "by name": 1.0}
"""Points of a test that uses what changes, by evidence; a half for each further step."""
_NAMED, _PART_NAMED, _IMPORTS, _IMPORTS_IMPORTER, _SAME_FOLDER = 5.0, 2.0, 3.0, 0.75, 0.25
_SHARES_WORDS, _NAMED_BY_CHANGE = 3.0, 2.0
_FEW_TESTS, _MOST_SHARE = 3, 0.3
"""A word that more tests have, and more than this share of them, tells nothing."""
_MOST_WORDS, _MOST_SAID, _WORDS_SAID = 40, 20, 3
_LEAST_LETTERS, _LEAST_STEM = 3, 5
_MOST_GUESSED = 20
"""A name that more definitions use than these, all known by name alone, tells nothing of one."""
_MOST_CALLS = 3
"""Uses by one test file that count, the surest ones."""
_AFFIXES = re.compile(r"^(test|tests|spec|it)[_.-]?|[_.-]?(tests?|spec|it|e2e|integration|unit)$", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_COMMON = frozenset(("index", "main", "mod", "init", "base", "core", "common", "types", "util", "utils", "lib", "src"))


@dataclass
class AffectedTest:
    """A test file and why it is named."""

    file: int
    score: float = 0.0
    calls: list[float] = field(default_factory=list)
    """Points of its uses of what changes."""
    step: RelationStep | None = None
    """The surest use of what changes."""
    reason: str = ""
    evidence: Evidence = "by name"

    def add(self, points: float, reason: str, evidence: Evidence) -> None:
        """Add points; the first reason, which is the surest one, stays.

        Args:
            points: Points.
            reason: Sentence for people.
            evidence: How sure the relation is.
        """
        self.score += points
        if not self.reason:
            self.reason, self.evidence = reason, evidence


def affected_tests(
    bundle: Bundle, target: RelationTarget, expand: Expand, depth: int, deadline: Deadline
) -> list[AffectedTest]:
    """Find the test files that a change may break.

    Args:
        bundle: The version.
        target: What changes.
        expand: Finds what uses definitions.
        depth: Steps of uses to follow.
        deadline: Deadline of the request.

    Returns:
        Test files, the most likely first.
    """
    directory = bundle.directory
    files = list(dict.fromkeys([*target.files, *(row.file for row in target.rows)]))
    found: dict[int, AffectedTest] = {}

    def test_of(file: int) -> AffectedTest:
        return found.setdefault(file, AffectedTest(file))

    for file in files:
        if directory.class_rank[file] == _TEST:
            test_of(file).add(100.0, "it changes itself", "exact")
    sources = [file for file in files if directory.class_rank[file] != _TEST]
    steps = walk(target.rows, expand, depth, deadline) if target.rows else []
    guessed = Counter(step.of.symbol_id for step in steps if step.evidence == "by name")
    for step in steps:
        is_common = step.evidence == "by name" and guessed[step.of.symbol_id] > _MOST_GUESSED
        if directory.class_rank[step.file] == _TEST and not is_common:
            test = test_of(step.file)
            test.calls.append(_CALLS[step.evidence] / 2 ** (step.depth - 1))
            if test.step is None or _rank(step) < _rank(test.step):
                test.step = step
    for test in found.values():
        if test.step is not None:
            test.add(sum(sorted(test.calls, reverse=True)[:_MOST_CALLS]), "", test.step.evidence)
    deadline.check()
    _add_imports(bundle, sources, test_of)
    repos = sorted({directory.repos[file] for file in sources})
    tests = (directory.class_rank == _TEST) & directory.files_in(repos)
    named = {file: _words_of(directory.paths[file]) for file in directory.in_order(tests)}
    deadline.check()
    _add_names(bundle, sources, target.rows, named, test_of)
    deadline.check()
    _add_words(bundle, target, sources, named, test_of)
    return sorted(found.values(), key=lambda test: (-test.score, directory.paths[test.file]))


def _rank(step: RelationStep) -> tuple[int, int]:
    return step.depth, CERTAINTY.index(step.evidence)


def _add_imports(bundle: Bundle, sources: Sequence[int], test_of: Callable[[int], AffectedTest]) -> None:
    """Add the tests that import what changes, or something that imports it."""
    directory = bundle.directory
    for source in sources:
        direct = bundle.imports.importing(source)
        for file in direct:
            if directory.class_rank[file] == _TEST:
                test_of(file).add(_IMPORTS, f"imports {directory.paths[source]}", "resolved")
        for between in direct:
            for file in bundle.imports.importing(between):
                if directory.class_rank[file] == _TEST and file not in direct:
                    why = f"imports {directory.paths[between]}, which imports {directory.paths[source]}"
                    test_of(file).add(_IMPORTS_IMPORTER, why, "resolved")


def _add_names(
    bundle: Bundle,
    sources: Sequence[int],
    rows: Sequence[SymbolRow],
    named: Mapping[int, list[str]],
    test_of: Callable[[int], AffectedTest],
) -> None:
    """Add the tests whose path names what changes: ``test_retry.py``, ``RetryTest.java``, ``retry/send_test.go``.

    Args:
        bundle: The version.
        sources: Files that change.
        rows: Definitions that change.
        named: Words of the file name of each test of their repositories.
        test_of: Returns the entry of a test.
    """
    directory = bundle.directory
    for source in sources:
        names = {tuple(_split(row.name)) for row in rows if row.file == source}
        path, own = directory.paths[source], _words_of(directory.paths[source])
        for file, words in named.items():
            if directory.repos[file] != directory.repos[source]:
                continue
            points, why = _likeness(path, own, directory.paths[file], words, names)
            if points:
                test_of(file).add(points, f"{why} {path}", "by name")


def _likeness(
    source: str, own: list[str], test: str, words: list[str], names: Collection[tuple[str, ...]]
) -> tuple[float, str]:
    """Return points for a test whose path resembles a source's, and in which way it does.

    Args:
        source: Path of what changes.
        own: Words of its file name.
        test: Path of a test.
        words: Words of its file name.
        names: Words of the names of definitions that change.

    Returns:
        Points, 0 where nothing is alike; and the way.
    """
    if not own or not words:
        return 0.0, ""
    telling = own[-1] not in _COMMON
    if words == own:
        points = _NAMED if telling or len(own) > 1 else _PART_NAMED
        return points + _shared_folders(source, test), "is named after"
    if tuple(words) in names or _holds(words, own) or (telling and words[-1] == own[-1]):
        return _PART_NAMED + _shared_folders(source, test), "shares a name with"
    folder = test.rpartition("/")[0]
    if telling and own[-1] in folder.lower() and own[-1] in _folders_of(test):
        return _PART_NAMED + _shared_folders(source, test), "lies in a folder named after"
    return (_SAME_FOLDER, "lies beside") if folder == source.rpartition("/")[0] else (0.0, "")


def _shared_folders(source: str, test: str) -> float:
    """Return the share of the folders of a source that a test's path has too."""
    parents = set(source.lower().split("/")[:-1])
    return len(_folders_of(test) & parents) / max(1, len(parents))


def _folders_of(test: str) -> set[str]:
    """Return the folders of a test, without what says that it is one.

    >>> sorted(_folders_of("test/net/retry_test/send.py"))
    ['net', 'retry']
    """
    return {_AFFIXES.sub("", part).lower() for part in test.split("/")[:-1]} - {""}


def _add_words(
    bundle: Bundle,
    target: RelationTarget,
    sources: Sequence[int],
    named: Mapping[int, list[str]],
    test_of: Callable[[int], AffectedTest],
) -> None:
    """Add the tests whose text, or path, has the rarest words of what changes; arguments as of `_add_names`."""
    channel, directory = bundle.channels.get("bm25"), bundle.directory
    if not sources or not isinstance(channel, Bm25Channel):
        return
    text = target.text or "\n".join(f"{row.name} {row.signature}" for row in target.rows[:_MOST_SAID])
    words = [word for word, _ in Counter(analyze_words(text)).most_common(_MOST_WORDS)]
    tests = np.zeros(len(directory.paths), np.bool_)
    tests[list(named)] = True
    many = max(1, len(named))
    scores, shared = np.zeros(len(tests)), dict[int, list[str]]()
    for word in words:
        for chunk_ids in channel.holding([whole(word)]):
            holding = directory.files_with(chunk_ids) & tests
            if 0 < (count := int(holding.sum())) <= max(_FEW_TESTS, many * _MOST_SHARE):
                scores[holding] += math.log(1 + many / count)
                for file in np.flatnonzero(holding).tolist():
                    shared.setdefault(file, []).append(word)
    best, spoken = float(scores.max(initial=0.0)), {_stem(word) for word in words}
    for file in np.flatnonzero(tests).tolist():
        if scores[file] > 0:
            said = ", ".join(shared[file][:_WORDS_SAID])
            test_of(file).add(_SHARES_WORDS * float(scores[file]) / best, f"shares the words {said}", "by name")
        if named[file] and all(_stem(word) in spoken for word in named[file]):
            test_of(file).add(_NAMED_BY_CHANGE, "is named after words that change", "by name")


def _stem(word: str) -> str:
    """Return a word without a plural's ending."""
    return word[:-1] if len(word) > _LEAST_LETTERS and word.endswith("s") else word


def analyze_words(text: str) -> list[str]:
    """Return the words of code that may tell where it is tested: identifiers and their parts, of three letters or more.

    >>> analyze_words("self.compile_base(x)")
    ['self', 'compile_base', 'compile', 'base']
    """
    return [term.text for term in analyze(text) if len(term.text) >= _LEAST_LETTERS and not term.text[0].isdigit()]


def _holds(words: Sequence[str], own: Sequence[str]) -> bool:
    """Tell whether one of two names begins with the other, as ``compiler`` with ``compile``."""
    least = min(len(words), len(own))
    if least and list(words[:least]) == list(own[:least]) and words[0] not in _COMMON:
        return True
    one, other = "_".join(words), "_".join(own)
    return min(len(one), len(other)) >= _LEAST_STEM and (one.startswith(other) or other.startswith(one))


def _words_of(path: str) -> list[str]:
    """Return the words of a file's name, without what says that it is a test.

    >>> _words_of("tests/net/test_retry_policy.py"), _words_of("src/RetryPolicyTest.java"), _words_of("a/retry.spec.ts")
    (['retry', 'policy'], ['retry', 'policy'], ['retry'])
    """
    stem = path.rpartition("/")[2].split(".")
    name = ".".join(stem[:-1]) if len(stem) > 1 else stem[0]
    words = _split(name)
    while len(words) > 1 and not _AFFIXES.sub("", words[-1]):
        words.pop()
    while len(words) > 1 and not _AFFIXES.sub("", words[0]):
        words.pop(0)
    return words


def _split(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
