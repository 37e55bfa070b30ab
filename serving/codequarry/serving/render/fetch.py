"""Text of an answer of ``fetch``: numbered lines, what is around them, and how to read on."""

from __future__ import annotations

from codequarry.schemas.wire.search import BundleInfo, FetchAnswer, FetchObject
from codequarry.serving.catalog import present
from codequarry.serving.render.lines import footer, numbered, place, shown_path


def fetch_text(answer: FetchAnswer) -> str:
    """Return the text of an answer.

    Args:
        answer: The answer.

    Returns:
        Its text.
    """
    objects = [answer.one] if answer.one is not None else answer.objects
    parts = ["\n".join(_object(one, answer.bundle)) for one in objects]
    uris = [one.metadata.uri for one in objects if one.metadata is not None]
    return "\n\n".join([*parts, "\n".join(footer(answer.bundle, uris, (), answer.limits))])


def _object(found: FetchObject, bundle: BundleInfo) -> list[str]:
    metadata, around = found.metadata, found.surroundings
    if metadata is None:
        error = found.error
        reason = "" if error is None else "; ".join(part for part in (error.message, error.suggestion) if part)
        return [f"{found.id}: error: {reason}"]
    path = shown_path(metadata.uri, bundle)
    chain = " > ".join(present.one_line(one) for one in around.enclosing)
    whole = f"(whole file, {metadata.lang or 'text'})" if metadata.kind == "file" else ""
    lines = found.content.split("\n")
    if lines[-1] == "":
        lines.pop()
    heading = (place(path, metadata.start_line, metadata.end_line), chain, whole)
    return [
        "  ".join(part for part in heading if part),
        *numbered(lines, around.first_shown),
        *_neighbours(found),
        *([_rest(found, path, len(lines))] if metadata.truncated else []),
    ]


def _neighbours(found: FetchObject) -> list[str]:
    around = found.surroundings
    named = [
        f"{side}: {place(present.one_line(span.label), span.first, span.last)}"
        for side, span in (("before", around.before), ("after", around.after))
        if span is not None
    ]
    return [" · ".join(named)] if named else []


def _rest(found: FetchObject, path: str, shown: int) -> str:
    """Return how to read on after a cut."""
    assert found.metadata is not None
    first, last = found.surroundings.first_shown, found.metadata.end_line
    if shown and not found.content.endswith("\n"):
        return f"cut: line {first + 1} is longer than the answer may be; raise max_tokens"
    return f"cut: fetch {place(path, first + shown, last)} for the rest"
