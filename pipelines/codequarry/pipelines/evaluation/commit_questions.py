"""Questions of kind B: the subject of a commit asks for the functions that it changed, where those are still there.

The changed functions are found in the commit's own text, parsed, and not in today's. A function that was changed and
later moved or renamed is no answer any more.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from codequarry.pipelines.adapt.pairs import word_count
from codequarry.pipelines.git.process import run_git
from codequarry.pipelines.git.trees import BlobReader
from codequarry.pipelines.measure.questions import CandidateKey, Question, Target, spread
from codequarry.pipelines.measure.source_tables import Mined, Node
from codequarry.pipelines.syntax.workers import chunk_files
from codequarry.schemas.errors import SourceError, SourceLimitError
from codequarry.schemas.records import AstNode
from codequarry.schemas.settings.load import ChunkingSettings

KIND = "B commit"
MIN_WORDS = 4
_COMMITS = 5_000
_MAX_FILES, _MAX_SOURCES, _MAX_FUNCTIONS = 20, 5, 8
"""Limits beyond which a commit is a sweep, whose subject says little of each place."""
_MAX_BLOB_BYTES = 1 << 20
_MAX_CHARS = 200
_MAX_WRITTEN = 1_000
"""Most characters of a subject; the patterns below take time by its square."""
_CHANGE = re.compile(r":\d{6} (\d{6}) [0-9a-f]+ ([0-9a-f]+) ([A-Z])\d*\t(.+)")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_DIFFERENCE = re.compile(r"^diff --git ", re.MULTILINE)
_CONVENTION = re.compile(
    r"^(?:feat|fix|docs?|style|refactor|perf|tests?|build|ci|chore|revert)(?:\([^)]*\))?!?:\s*", re.I
)
_REFERENCE = re.compile(
    r"[,;]?\s*\(?(?:\b(?:clos|fix|resolv)(?:e[sd]?|es|ed)?\b:?\s*)?(?:[\w.-]+/[\w.-]+)?#\d+\)?", re.I
)
_SAYS_NOTHING = re.compile(
    r"(?i)^(merge|bump|release|version|v?\d+\.\d|prepare|update (depend|change|version|readme|copyright)|upgrade|typo"
    r"|fix (typo|lint|format|test|ci|build|doc)|format|lint|wip|revert|cleanup|clean up|apply suggest|address review"
    r"|run |back to development|initial)|\bchangelog\b|\bpre-?commit\b|\bcopyright\b"
)


class _ChangedFile(NamedTuple):
    path: str
    oid: str
    """Of the file as the commit left it."""


class _SubjectCommit(NamedTuple):
    id: str
    subject: str
    changes: tuple[_ChangedFile, ...]
    """Of source files that are still there."""


def subject_of(written: str) -> str:
    """Return the subject of a commit as a question; "" when it does not say what changed.

    >>> subject_of("fix(router): keep the query string on redirects (#123)")
    'keep the query string on redirects'
    >>> subject_of("Merge branch 'main' into topic of ours"), subject_of("Fix tests")
    ('', '')
    """
    written = written[:_MAX_WRITTEN]
    if _SAYS_NOTHING.search(written):
        return ""
    subject = _REFERENCE.sub("", _CONVENTION.sub("", written.strip())).strip(" .:-")
    if _SAYS_NOTHING.search(subject) or word_count(subject) < MIN_WORDS:
        return ""
    return subject[:_MAX_CHARS]


def commit_questions(
    repositories: Sequence[tuple[Mined, Path | None]], count: int, seed: int, settings: ChunkingSettings
) -> tuple[list[Question], list[str]]:
    """Return questions, and notes about repositories that gave none.

    Args:
        repositories: Each with the folder in which git knows its history; None when there is none.
        count: Most questions.
        seed: Seed of the drawing.
        settings: Settings of the chunker that parses files.

    Returns:
        Questions and notes.
    """
    notes: list[str] = []
    found: list[tuple[CandidateKey, tuple[Mined, Path, _SubjectCommit]]] = []
    alike: Counter[str] = Counter()
    for repository, folder in repositories:
        if folder is None or not repository.snapshot.commit:
            notes.append(f"{repository.name}: no git history to ask about commits")
            continue
        try:
            commits = list(_history(repository, folder))
        except (SourceError, TimeoutError) as error:
            notes.append(f"{repository.name}: the history cannot be read: {error}")
            continue
        if not commits:
            notes.append(f"{repository.name}: no commit that changed a few functions and says how")
        for commit in commits:
            alike[commit.subject] += 1
            place = CandidateKey(repository.name, commit.changes[0].path, commit.id)
            found.append((place, (repository, folder, commit)))
    questions: list[Question] = []
    drawn = spread(((place, one) for place, one in found if alike[one[2].subject] == 1), seed)
    while len(questions) < count and (batch := list(islice(drawn, count))):
        targets = _changed(batch, settings)
        for repository, _, commit in batch:
            own = targets.get((repository.name, commit.id), ())
            if own and len(questions) < count:
                questions.append(Question(f"B{len(questions) + 1:04d}", KIND, commit.subject, own))
    return questions, notes


def _history(repository: Mined, folder: Path) -> Iterator[_SubjectCommit]:
    """Yield the last commits before the snapshot that changed a few source files which are still there."""
    done = run_git(
        folder, "log", "--no-merges", "--no-renames", "--raw", "--no-abbrev", "--relative", "--no-color",
        "--no-show-signature", f"--max-count={_COMMITS}", "--format=%x01%H%x02%s", repository.snapshot.commit,
    )  # fmt: skip
    if not done.done:
        raise SourceError(done.complaint[:300], suggestion="run `git fsck` there")
    for block in done.output.decode("utf-8", "replace").split("\x01")[1:]:
        head, *lines = block.split("\n")
        commit, _, written = head.partition("\x02")
        changes = [change for line in lines if (change := _CHANGE.fullmatch(line))]
        sources = [
            _ChangedFile(change[4], change[2])
            for change in changes
            if change[3] in "AM" and change[1].startswith("100") and repository.is_source(change[4])
        ]
        subject = subject_of(written)
        if subject and sources and len(changes) <= _MAX_FILES and len(sources) <= _MAX_SOURCES:
            yield _SubjectCommit(commit, subject, tuple(sources))


def _changed(
    batch: Sequence[tuple[Mined, Path, _SubjectCommit]], settings: ChunkingSettings
) -> dict[tuple[str, str], tuple[Target, ...]]:
    """Return the functions that each commit changed and that are still there, by repository and commit."""
    found: dict[tuple[str, str], tuple[Target, ...]] = {}
    by_repo: dict[str, list[tuple[Mined, Path, _SubjectCommit]]] = defaultdict(list)
    for one in batch:
        by_repo[one[0].name].append(one)
    for name, own in by_repo.items():
        repository, folder = own[0][:2]
        nodes = _nodes_then(repository, folder, [change for _, _, commit in own for change in commit.changes], settings)
        today = _functions(repository.nodes)
        for _, _, commit in own:
            lines = _changed_lines(folder, commit)
            names = [
                (change.path, node.qualified_name)
                for change in commit.changes
                for node in _around(nodes.get(change.oid, ()), lines.get(change.path, ()))
            ]
            if len(set(names)) <= _MAX_FUNCTIONS:
                kept = [today[one] for one in dict.fromkeys(names) if one in today]
                targets = (Target(node.path, name, node.start_line, node.end_line) for node in kept)
                found[name, commit.id] = tuple(targets)
    return found


def _nodes_then(
    repository: Mined, folder: Path, changes: Sequence[_ChangedFile], settings: ChunkingSettings
) -> dict[str, tuple[AstNode, ...]]:
    """Return the definitions of files as commits left them, by blob; child processes parse them."""
    with BlobReader(folder) as blobs:
        files: list[tuple[str, str, bytes]] = []
        for path, oid in {change.oid: (change.path, change.oid) for change in changes}.values():
            data = blobs.read(oid, _MAX_BLOB_BYTES)
            if data is not None:
                files.append((oid, repository.languages[path], data))
    return {chunked.file[0]: chunked.made.ast_nodes for chunked in chunk_files(files, settings)}


def _changed_lines(folder: Path, commit: _SubjectCommit) -> Mapping[str, list[int]]:
    """Return the lines of each file that a commit wrote, 0-based; for lines that it only removed, the line before.

    The result is empty when git cannot tell, as in a clone that lacks the files of older commits.
    """
    try:
        done = run_git(
            folder, "diff-tree", "--no-commit-id", "--root", "-r", "-p", "-U0", "--no-ext-diff", "--no-textconv",
            "--no-renames", "--no-color", "--relative", "--src-prefix=a/", "--dst-prefix=b/", commit.id,
        )  # fmt: skip
    except (TimeoutError, SourceLimitError):
        return {}
    lines: dict[str, list[int]] = {}
    # A path with odd characters is quoted, and found in no file's name.
    for difference in _DIFFERENCE.split(done.output.decode("utf-8", "replace"))[1:] if done.done else ():
        named = re.search(r"^\+\+\+ b/(.+?)\t?$", difference, re.MULTILINE)
        if named is not None:
            hunks = ((int(hunk[1]), int(hunk[2] or 1)) for hunk in _HUNK.finditer(difference))
            lines[named[1]] = [line - 1 for first, size in hunks for line in range(first, first + max(size, 1))]
    return lines


def _around(nodes: Sequence[AstNode], lines: Sequence[int]) -> Iterator[AstNode]:
    """Yield the innermost function around each line."""
    functions = [node for node in nodes if node.kind in ("function", "method")]
    for line in lines:
        around = [node for node in functions if node.start_line <= line <= node.end_line]
        if around:
            yield min(around, key=lambda node: (node.end_line - node.start_line, -node.start_byte))


def _functions(nodes: Sequence[Node]) -> dict[tuple[str, str], Node]:
    """Return functions by path and qualified name, without names that several functions share."""
    named = Counter((node.path, node.qualified_name) for node in nodes)
    return {
        (node.path, node.qualified_name): node
        for node in nodes
        if node.is_function and named[node.path, node.qualified_name] == 1
    }
