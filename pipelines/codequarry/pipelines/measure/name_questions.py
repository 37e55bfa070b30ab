"""Questions of kind C: an identifier, an error message or a configuration key asks for the place that defines it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from codequarry.pipelines.measure.questions import CandidateKey, Question, Target, spread
from codequarry.pipelines.measure.source_tables import Mined
from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.serving.text.analyzer import identifier_parts

IDENTIFIER, LITERAL, KEY = "C identifier", "C literal", "C key"
_MIN_NAME = 6
_MIN_LITERAL_WORDS, _MIN_LITERAL = 3, 14
_MAX_LITERALS_PER_FILE = 12
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEY = re.compile(r"""^[\s{,-]*["']?([A-Za-z][\w.-]{4,60})["']?\s*[:=](?:\s|["'\[{]|$)""")
_CONFIGURATION = frozenset({"toml", "yaml", "json", "ini"})
_ENVIRONMENT = re.compile(r"""["']([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)["']""")
_STRING = re.compile(r"(?<![\"'])(?:\"((?:[^\"\\\n]|\\.){14,200})\"|'((?:[^'\\\n]|\\.){14,200})')(?![\"'])")
_COMPLAINS = re.compile(
    r"(?i)error|except|raise|throw|panic|fail|fatal|abort|assert|invalid|unexpected|unknown|missing|cannot|warn"
)
_COMMENT = re.compile(r"\s*(?://|#(?!\{)|\*|--|;)")
_VARIABLE = re.compile(r"\$?\{[^{}]*\}|#\{[^}]*\}|\\\([^)]*\)|%[-+# 0-9.]*[a-zA-Z@]|\\.|\$\w+")
_WORD = re.compile(r"[A-Za-z]{2}")


class _Said(NamedTuple):
    """Text that stands in one place of a file."""

    repository: Mined
    path: str
    line: int
    """0-based."""
    text: str


def name_questions(repositories: Sequence[Mined], count: int, seed: int) -> list[Question]:
    """Return at most ``count`` questions, a third of each sort when there are enough."""
    share = -(-count // 3)
    sorts = ((IDENTIFIER, _identifiers), (LITERAL, _literals), (KEY, _keys))
    questions: list[Question] = []
    for kind, find in sorts:
        for said in find(repositories, min(share, count - len(questions)), seed):
            target = Target(said.path, said.repository.name, said.line, said.line)
            questions.append(Question(f"C{len(questions) + 1:04d}", kind, said.text, (target,)))
    return questions


def static_part(literal: str) -> str:
    """Return the longest stretch of a string that no variable interrupts; "" when it says too little.

    >>> static_part("no such column: %s in {table}"), static_part("application/patch-ops-error+xml")
    ('no such column:', '')
    """
    longest = max((piece.strip(" '\"`([<") for piece in _VARIABLE.split(literal)), key=len)
    words = sum(_WORD.search(word) is not None for word in longest.split())
    return longest if len(longest) >= _MIN_LITERAL and words >= _MIN_LITERAL_WORDS else ""


def _identifiers(repositories: Sequence[Mined], count: int, seed: int) -> list[_Said]:
    """Return the names of more than one word that a single definition has."""
    named = Counter(node.name for repository in repositories for node in repository.nodes)
    found = [
        _with_place(_Said(repository, node.path, node.name_start_line, node.name))
        for repository in repositories
        for node in repository.nodes
        if repository.is_source(node.path) and named[node.name] == 1 and is_telling_name(node.name)
    ]
    return list(islice(spread(found, seed), count))


def is_telling_name(name: str) -> bool:
    """Return whether a name has more than one word, so that it means something outside of its file.

    >>> is_telling_name("parse_price"), is_telling_name("parse"), is_telling_name("a_b")
    (True, False, False)
    """
    return len(name) >= _MIN_NAME and _NAME.fullmatch(name) is not None and len(identifier_parts(name)) > 1


def _literals(repositories: Sequence[Mined], count: int, seed: int) -> list[_Said]:
    """Return messages about something that went wrong and that stand in one line of the sources."""
    found = [
        _with_place(said)
        for repository in repositories
        for path, _, data in repository.contents()
        if repository.is_source(path)
        for said in _messages(repository, path, data)
    ]
    return _only_here(repositories, spread(found, seed), count)


def _messages(repository: Mined, path: str, data: bytes) -> Iterator[_Said]:
    before, taken = "", 0
    for line, text in enumerate(data.decode("utf-8", "replace").split("\n")):
        if _COMPLAINS.search(before + text) and not _COMMENT.match(text):
            for match in _STRING.finditer(text):
                piece = static_part(match[1] or match[2])
                if piece and taken < _MAX_LITERALS_PER_FILE:
                    taken += 1
                    yield _Said(repository, path, line, piece)
        before = text


def _keys(repositories: Sequence[Mined], count: int, seed: int) -> list[_Said]:
    """Return keys of configuration files, and names of environment variables that a program reads."""
    found: list[tuple[CandidateKey, _Said]] = []
    for repository in repositories:
        for path, lang, data in repository.contents():
            written = _ENVIRONMENT if repository.is_source(path) else _KEY if _is_configuration(path, lang) else None
            if written is not None:
                for line, text in enumerate(data.decode("utf-8", "replace").split("\n")):
                    found += [
                        _with_place(_Said(repository, path, line, match[1])) for match in written.finditer(text)
                    ]  # fmt: skip
    return _only_here(repositories, spread(found, seed), count)


def _is_configuration(path: str, lang: str) -> bool:
    """Return whether a file holds settings, but not those of a service about the repository itself."""
    hidden = any(part.startswith(".") for part in path.split("/"))
    return lang in _CONFIGURATION and path_class(path) == SOURCE and not hidden


def _only_here(repositories: Sequence[Mined], drawn: Iterator[_Said], count: int) -> list[_Said]:
    """Return the first candidates whose text the sources and configuration files hold exactly once."""
    chosen: list[_Said] = []
    while len(chosen) < count and (batch := list(islice(drawn, 2 * count))):
        needles = [said.text.encode() for said in batch]
        times = [0] * len(needles)
        for repository in repositories:
            for path, _, data in repository.contents():
                if path_class(path) == SOURCE:
                    times = [seen + data.count(needle) for seen, needle in zip(times, needles, strict=True)]
        chosen += [said for said, seen in zip(batch, times, strict=True) if seen == 1]
    return chosen[:count]


def _with_place(said: _Said) -> tuple[CandidateKey, _Said]:
    return CandidateKey(said.repository.name, said.path, f"{said.line}:{said.text}"), said
