"""Text search: compile, ask which files may match, read those, find, show.

The text alone decides about matches. Text from the index is untrusted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

import numpy as np

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError
from codequarry.schemas.wire.grep import (
    CONTEXT_MAX,
    MATCHES_MAX,
    MATCHES_MIN,
    MAX_COUNTED,
    MAX_PATTERN_CHARS,
    CodeMatch,
    CodeSearchAnswer,
    CodeSearchRequest,
)
from codequarry.schemas.wording import counted
from codequarry.serving.catalog import present
from codequarry.serving.catalog.filters import allowed_chunks
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.arguments import checked_text, clamp_argument
from codequarry.serving.text.literal_patterns import Literal, OutOfTimeError, Phrase, TextPattern
from codequarry.serving.text.regex import Regex
from codequarry.serving.tools.budgets import fit_budget, shorter_match
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.tools.text_search.candidate_files import CandidateFiles
from codequarry.serving.version.open import Bundle

_ANSWER_CHARS = 100_000
"""Characters of code in one answer; more than a model can use."""
_LEAD_CHARS = 80
"""Characters of a long line that are shown before the match."""


def search_code(context: ToolContext, request: CodeSearchRequest) -> CodeSearchAnswer:
    """Answer the tool ``search_code``; raises as `find_matches`.

    Args:
        context: Version and deadline.
        request: Pattern, filters and options.

    Returns:
        Matches in reading order, within the budget of the request.
    """
    request = scoped(request)
    answer = find_matches(context, request)
    results, notes = fit_budget(answer.results, request.max_tokens, shorter_match)
    if request.mode == "regex" and not answer.total and answer.total_is_exact:
        notes += _note_of_text(context, request)
    return answer.model_copy(update={"results": results, "limits": [*answer.limits, *notes]})


def _note_of_text(context: ToolContext, request: CodeSearchRequest) -> list[str]:
    """Return a note when a pattern that matches nothing stands in the code as plain text."""
    try:
        found = find_matches(context, request.model_copy(update={"mode": "exact", "limit": 1}))
    except DeadlineError:
        return []
    if not found.total:
        return []
    return [f"no match as a pattern, but {counted(found.total, 'match', 'matches')} as plain text: use mode 'exact'"]


def find_matches(context: ToolContext, request: CodeSearchRequest) -> CodeSearchAnswer:
    """Find the places of a text.

    Args:
        context: Version and deadline.
        request: Pattern, filters and options.

    Returns:
        Matches in reading order.

    Raises:
        InvalidArgumentError: The pattern or the filters cannot be used.
        DeadlineError: No file was read in time.
    """
    pattern = _compiled(request)
    bundle, deadline = context.bundle, context.deadline
    limit, limits = clamp_argument("limit", request.limit, MATCHES_MIN, MATCHES_MAX)
    lines, notes = clamp_argument("context_lines", request.context_lines, 0, CONTEXT_MAX)
    limits += notes
    directory = bundle.directory
    allowed, notes = allowed_chunks(request.filters, directory, bundle.catalog)
    limits += notes
    tally = _Tally(limit, lines, None if allowed is None else frozenset(allowed.tolist()))
    files = directory.indexed if allowed is None else directory.files_with(allowed)
    candidates = CandidateFiles(pattern, bundle, files, deadline)
    limits += candidates.notes
    read = 0
    try:
        for batch in candidates.batches(lambda: tally.total / MAX_COUNTED):
            if deadline.passed:
                raise OutOfTimeError
            for file in batch.tolist():
                tally.add(FileText.read(bundle, file), pattern, deadline)
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
        unread = f"{read} of {candidates.count} files that may match are read"
        limits.append(f"stopped after {deadline.seconds:g} s, {unread}")
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


@dataclass
class _Tally:
    """Matches found so far."""

    limit: int
    context: int
    allowed: frozenset[int] | None
    results: list[CodeMatch] = field(default_factory=list)
    total: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Matches of each file with any."""
    complete: bool = True
    chars: int = 0
    replaced: bool = False

    @property
    def full(self) -> bool:
        """True when no more matches are counted."""
        return self.total >= MAX_COUNTED

    def add(self, file: FileText, pattern: TextPattern, deadline: Deadline) -> None:
        """Count a file's matches and keep those still to be shown.

        Args:
            file: Text of the file.
            pattern: Compiled pattern.
            deadline: Deadline of the request.

        Raises:
            OutOfTimeError: The deadline passed during the search.
        """
        before = self.total
        try:
            for start, end in pattern.spans(file.text, deadline):
                chunk = bisect_right(file.starts, start) - 1
                if self.allowed is not None and file.chunk_ids[chunk] not in self.allowed:
                    continue
                self.total += 1
                if len(self.results) < self.limit and self.chars < _ANSWER_CHARS:
                    match = _match(file, chunk, start, end, self.context)
                    self.results.append(match)
                    self.chars += sum(map(len, (match.preview, *match.before, *match.after)))
                    self.replaced |= "\ufffd" in match.preview
                if self.full:
                    return
                if self.total % 256 == 0 and deadline.passed:
                    raise OutOfTimeError
        finally:
            if self.total > before:
                self.counts[file.uri] = self.total - before

    def answer(self, bundle: Bundle, limits: list[str]) -> CodeSearchAnswer:
        """Return the answer with these and its own notes about its limits."""
        limits = list(limits)
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
            files=len(self.counts),
            counts=self.counts,
            limits=limits,
            bundle=bundle.info,
        )


@dataclass(frozen=True, slots=True)
class FileText:
    """Text of a file, assembled from its chunks."""

    uri: str
    lang: str
    chunk_ids: list[int]
    """Chunks in the order of the file."""
    starts: list[int]
    """First character of each chunk."""
    text: str
    name_of: Callable[[int], tuple[str, str]]
    """Returns qualified name and kind of a chunk by its position."""

    @classmethod
    def read(cls, bundle: Bundle, file: int) -> Self:
        """Read a file, which its chunks cover without gap or overlap.

        Args:
            bundle: Version to read.
            file: Row of the file in the directory.

        Returns:
            The file.
        """
        directory, index = bundle.directory, bundle.catalog.index
        rows = directory.rows_in(file)
        chunks = index.chunks[rows.start : rows.stop]
        text = bundle.catalog.stored_texts.text_of(chunks)
        ends = np.cumsum(chunks["text_bytes"], dtype=np.int64).tolist()
        starts = [0, *ends[:-1]]
        if not text.isascii():
            data = text.encode()
            sizes = (len(data[start:end].decode()) for start, end in zip(starts, ends[:-1], strict=False))
            starts = list(accumulate(sizes, initial=0))

        def name_of(chunk: int) -> tuple[str, str]:
            place = index.numbers(rows[chunk])
            return index.texts[place["qualified_name"]], index.texts[place["kind"]]

        uri = f"{directory.repos[file]}/{directory.paths[file]}"
        return cls(uri, directory.langs[file], chunks["chunk_id"].tolist(), starts, text, name_of)

    def position(self, at: int) -> tuple[int, int]:
        """Return line and column of a character, 0-based, the column in bytes."""
        line_start = self.text.rfind("\n", 0, at) + 1
        return self.text.count("\n", 0, line_start), len(self.text[line_start:at].encode())


def _match(file: FileText, chunk: int, start: int, end: int, context: int) -> CodeMatch:
    """Build a match for the answer.

    Args:
        file: File with the match.
        chunk: Position of the chunk in which the match starts.
        start: First character of the match in the file.
        end: Character behind the match.
        context: Lines before and after.

    Returns:
        The match.
    """
    start_line, start_column = file.position(start)
    end_line, end_column = file.position(end)
    preview, highlight = _preview(file.text, start, end)
    qualified_name, kind = file.name_of(chunk)
    fields = {
        "uri": file.uri,
        "start_line": start_line,
        "start_column": start_column,
        "end_line": end_line,
        "end_column": end_column,
        "preview": preview,
        "highlight": highlight,
        "chunk_id": str(file.chunk_ids[chunk]),
        "lang": file.lang,
        "qualified_name": qualified_name,
        "kind": kind,
        "title": present.line_title(file.uri, start_line),
        "url": present.line_url(file.uri, start_line),
    }
    if context:
        fields["before"] = _before(file.text, start, context)
        fields["after"] = _after(file.text, end, context)
    return CodeMatch.model_validate(fields)


def _preview(text: str, start: int, end: int) -> tuple[str, list[int]]:
    """Return at most `present.MAX_LINE_CHARS` of the line in which a match starts, and the match's place in it."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    last = len(text) if last < 0 else last
    end = min(end, last)
    if last - first > present.MAX_LINE_CHARS:
        left = max(first, min(start - _LEAD_CHARS, last - present.MAX_LINE_CHARS))
        right = min(last, left + present.MAX_LINE_CHARS)
    else:
        left, right = first, last
    end = max(start, min(end, right))
    head = ("…" if left > first else "") + present.code_line(text[left:start])
    match = present.code_line(text[start:end])
    tail = present.code_line(text[end:right]) + ("…" if right < last else "")
    return head + match + tail, [len(head), len(head) + len(match)]


def _before(text: str, start: int, count: int) -> list[str]:
    """Return at most ``count`` lines before the line of a character."""
    lines: list[str] = []
    end = text.rfind("\n", 0, start)
    while end >= 0 and len(lines) < count:
        first = text.rfind("\n", 0, end) + 1
        lines.append(_line(text[first:end]))
        end = first - 1
    return lines[::-1]


def _after(text: str, end: int, count: int) -> list[str]:
    """Return at most ``count`` lines after the line of a match's last character."""
    lines: list[str] = []
    first = text.find("\n", end - 1) + 1
    while 0 < first < len(text) and len(lines) < count:
        last = text.find("\n", first)
        last = len(text) if last < 0 else last
        lines.append(_line(text[first:last]))
        first = last + 1
    return lines


def _line(text: str) -> str:
    cut = text[: present.MAX_LINE_CHARS]
    return present.code_line(cut) + ("…" if len(cut) < len(text) else "")
