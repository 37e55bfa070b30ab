"""Answer of `search` as text."""

from __future__ import annotations

from codequarry.schemas.wire.search import SearchAnswer, SearchResult
from codequarry.serving.render.lines import NOTHING_FOUND, footer, numbered, on_disk, place, shown_path

_ELLIPSIS = "…"


def search_text(answer: SearchAnswer) -> str:
    """Return the answer as a model reads it.

    Args:
        answer: Answer in either form.

    Returns:
        Places with code, then places of one line each, then commits and limits.
    """
    lines: list[str] = []
    for result in answer.results:
        if result.code:
            lines += [_heading(result, answer), *code_lines(result)]
    rest = [_one_line(result, answer) for result in answer.results if not result.code]
    if rest:
        lines.append("more: " + " · ".join(rest))
    count = len(answer.results)
    many = f"{count} of {answer.candidates} found" if answer.candidates > count else ""
    uris = [result.metadata.uri for result in answer.results]
    if not answer.results:
        lines.append(NOTHING_FOUND)
    return "\n".join([*lines, *footer(answer.bundle, uris, [many], answer.limits)])


def _heading(result: SearchResult, answer: SearchAnswer) -> str:
    found = result.metadata
    where = place(shown_path(found.uri, answer.bundle), found.start_line, found.end_line)
    handle = result.handle and f"[{result.handle}]"
    return "  ".join(part for part in (where, result.heading, handle, on_disk(found.on_disk)) if part)


def _one_line(result: SearchResult, answer: SearchAnswer) -> str:
    """Return the place of a result with the innermost definition, which the place gives to `fetch`."""
    found = result.metadata
    where = place(shown_path(found.uri, answer.bundle), found.start_line, found.end_line)
    return f"{where} {result.heading.rpartition(' ')[2]}".rstrip()


def code_lines(result: SearchResult) -> list[str]:
    """Return the numbered lines of a result's code, with a mark where the chunk goes on."""
    lines = result.code.split("\n")
    more = result.code_line + len(lines) <= result.metadata.end_line
    return [*numbered(lines, result.code_line), *([f"  {_ELLIPSIS}"] if more else [])]
