"""One text search: compile, ask the indexes which files may match, read those, find, show.

Candidates are files and not chunks, so that a match may lie across a chunk boundary. An index only ever leaves files
out that cannot match; what matches is decided on the text alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from codequarry.schemas.code_search import (
    CONTEXT_MAX,
    MATCHES_MAX,
    MATCHES_MIN,
    MAX_COUNTED,
    MAX_PATTERN_CHARS,
    CodeMatch,
    CodeSearchAnswer,
    CodeSearchRequest,
)
from codequarry.schemas.errors import DeadlineError, InvalidArgumentError
from codequarry.serving.arguments import checked_text, clamped
from codequarry.serving.bundle import Bundle
from codequarry.serving.catalog import ChunkText
from codequarry.serving.code_match import FileText, shown
from codequarry.serving.deadline import Deadline
from codequarry.serving.directory import ChunkDirectory
from codequarry.serving.filters import allowed_chunks
from codequarry.serving.regex_pattern import Regex
from codequarry.serving.text_candidates import candidate_files
from codequarry.serving.text_patterns import Literal, OutOfTimeError, Phrase, TextPattern

_FIRST_BATCH, _LAST_BATCH = 256, 1024
"""Chunks read at once: few at first, because common patterns are done after them; many cost memory."""
_ANSWER_CHARS = 100_000
"""Characters of code in one answer; more than a model can use."""


def search_code(bundle: Bundle, request: CodeSearchRequest, deadline: Deadline) -> CodeSearchAnswer:
    """Answer a text search.

    Raises InvalidArgumentError: pattern or filters cannot be used. DeadlineError: no file was read in time.
    """
    pattern = _compiled(request)
    limits: list[str] = []
    limit = clamped("limit", request.limit, MATCHES_MIN, MATCHES_MAX, limits)
    context = clamped("context_lines", request.context_lines, 0, CONTEXT_MAX, limits)
    directory = bundle.directory
    allowed = allowed_chunks(request.filters, directory, bundle.catalog)
    tally = _Tally(limit, context, None if allowed is None else frozenset(allowed.tolist()))
    files = np.diff(directory.row_starts) > 0 if allowed is None else directory.files_with(allowed)
    candidates = candidate_files(pattern.required, bundle, files, deadline, limits)
    ordered = directory.reading_order[candidates[directory.reading_order]]
    read = 0
    try:
        for batch in _batches(ordered, directory):
            if deadline.passed:
                raise OutOfTimeError
            texts = bundle.catalog.row_texts(directory.rows_of(batch))
            for file in batch:
                tally.add(_file_text(file, directory, texts), pattern, deadline)
                read += 1
                if tally.full:
                    break
            if tally.full:
                break
    except OutOfTimeError:
        if not read and not tally.total:
            raise DeadlineError(
                f"no file was searched within {deadline.seconds:g} s", suggestion="narrow the filters, or call again"
            ) from None
        limits.append(f"stopped after {deadline.seconds:g} s, {read} of {len(ordered)} files that may match are read")
        tally.complete = False
    return tally.answer(bundle, limits)


def _compiled(request: CodeSearchRequest) -> TextPattern:
    suggestion = "give a line or less of the code you look for"
    text = checked_text("pattern", request.pattern, longest=MAX_PATTERN_CHARS, suggestion=suggestion)
    if not text:
        raise InvalidArgumentError("pattern: is empty", suggestion=suggestion)
    if request.mode == "regex":
        return Regex.of(text, case_sensitive=request.case_sensitive)
    if request.mode == "phrase":
        phrase = Phrase.of(text)
        if phrase is None:
            raise InvalidArgumentError(
                "pattern: holds no word, expected some in mode 'phrase'", suggestion="use mode 'exact' for punctuation"
            )
        return phrase
    return Literal(text, request.mode == "word", request.case_sensitive)


def _batches(files: np.ndarray, directory: ChunkDirectory) -> Iterator[np.ndarray]:
    """The files in order, cut where so many chunks are together."""
    sizes = np.diff(directory.row_starts)[files]
    ends = np.cumsum(sizes)
    start, size = 0, _FIRST_BATCH
    while start < len(files):
        done = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + size, side="right")))
        yield files[start:end]
        start, size = end, min(size * 2, _LAST_BATCH)


def _file_text(file: int, directory: ChunkDirectory, texts: dict[int, ChunkText]) -> FileText:
    chunks = [texts[row] for row in directory.rows_of(np.array([file])).tolist()]
    return FileText.of(directory.repos[file], directory.paths[file], directory.langs[file], chunks)


@dataclass
class _Tally:
    """What was found so far."""

    limit: int
    context: int
    allowed: frozenset[int] | None
    results: list[CodeMatch] = field(default_factory=list)
    total: int = 0
    files: int = 0
    complete: bool = True
    chars: int = 0
    replaced: bool = False

    @property
    def full(self) -> bool:
        """Nothing more is counted."""
        return self.total >= MAX_COUNTED

    def add(self, file: FileText, pattern: TextPattern, deadline: Deadline) -> None:
        """Count a file's matches and keep what is still to be shown. Raises OutOfTimeError."""
        before = self.total
        try:
            for start, end in pattern.spans(file.text, deadline):
                chunk = file.chunks[bisect_right(file.starts, start) - 1]
                if self.allowed is not None and chunk.chunk_id not in self.allowed:
                    continue
                self.total += 1
                if len(self.results) < self.limit and self.chars < _ANSWER_CHARS:
                    match = shown(file, chunk, start, end, self.context)
                    self.results.append(match)
                    self.chars += sum(map(len, (match.preview, *match.before, *match.after)))
                    self.replaced |= "\ufffd" in match.preview
                if self.full:
                    return
                if self.total % 256 == 0 and deadline.passed:
                    raise OutOfTimeError
        finally:
            self.files += self.total > before

    def answer(self, bundle: Bundle, limits: list[str]) -> CodeSearchAnswer:
        """The answer, with what it lacks."""
        if self.full:
            limits.append(f"counting stopped at {MAX_COUNTED} matches; narrow the pattern or the filters")
        if len(self.results) < min(self.total, self.limit):
            limits.append(f"results end after {_ANSWER_CHARS} characters of code; ask for fewer context_lines")
        if len(self.results) < self.total:
            limits.append(f"the first {len(self.results)} matches are shown; raise limit or narrow the filters")
        if self.replaced:
            limits.append("U+FFFD may stand for bytes that are not UTF-8; columns behind it count it as 3 bytes")
        return CodeSearchAnswer(
            results=self.results,
            total=self.total,
            total_is_exact=self.complete and not self.full,
            files=self.files,
            limits=limits,
            bundle=bundle.info,
        )
