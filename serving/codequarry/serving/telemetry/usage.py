"""Sums over the timeline: what answers cost a model, how often the same was asked, and what was fetched of results.

A token is counted as four characters, whichever model reads the answer. Nothing is compared with what a model would
have read otherwise: the timeline knows nothing of that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TIMELINE = "timeline.jsonl"
CHARACTERS_PER_TOKEN = 4
_LONGEST_LINE = 1 << 20


@dataclass(slots=True)
class AnswerSums:
    """Sums over some answers."""

    calls: int = 0
    failed: int = 0
    repeats: int = 0
    """Calls with arguments that the same client had sent to the same tool before."""
    text_characters: int = 0
    """Of the text that a model reads."""
    structured_characters: int = 0
    """Of the structured content as JSON, which some clients show to the model instead, and some beside the text."""

    def as_dict(self) -> dict[str, float]:
        """Return the sums, with tokens in all and per call."""
        text, structured = _tokens(self.text_characters), _tokens(self.structured_characters)
        calls = max(self.calls, 1)
        return {
            "calls": self.calls,
            "failed": self.failed,
            "repeats": self.repeats,
            "text_tokens": text,
            "text_tokens_per_call": round(text / calls, 1),
            "structured_tokens": structured,
            "structured_tokens_per_call": round(structured / calls, 1),
        }


@dataclass(slots=True)
class Usage:
    """Sums over a timeline."""

    tools: dict[str, AnswerSums] = field(default_factory=dict)
    days: dict[str, AnswerSums] = field(default_factory=dict)
    """By day, UTC."""
    first: float = 0.0
    """Seconds since the epoch of the first answer; 0 without any."""
    last: float = 0.0
    searches: int = 0
    """Answers that held results."""
    searches_read: int = 0
    """Those of which the same client fetched something later."""
    fetched: int = 0
    """Objects that were fetched."""
    fetched_from_results: int = 0
    """Those that lay in the results, or in a file of the results, that the same client had before."""
    unreadable: int = 0
    """Lines that could not be read."""

    def as_dict(self) -> dict[str, Any]:
        """Return the sums as JSON has them."""
        return {
            "characters_per_token": CHARACTERS_PER_TOKEN,
            "first": _moment(self.first),
            "last": _moment(self.last),
            "tools": {name: sums.as_dict() for name, sums in sorted(self.tools.items())},
            "days": {day: sums.as_dict() for day, sums in sorted(self.days.items())},
            "searches": {"with_results": self.searches, "fetched_from": self.searches_read},
            "fetches": {"objects": self.fetched, "from_results": self.fetched_from_results},
            "unreadable_lines": self.unreadable,
        }


def read_timeline(folder: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the events of a timeline, the oldest first; None for a line that is no event.

    Args:
        folder: Folder of the telemetry.

    Yields:
        Events.
    """
    current = folder / TIMELINE
    for file in (current.with_suffix(".1.jsonl"), current):
        try:
            stream = file.open("rb")
        except FileNotFoundError:
            continue
        with stream:
            while line := stream.readline(_LONGEST_LINE):
                try:
                    event = json.loads(line)
                except ValueError:
                    event = None
                yield event if isinstance(event, dict) else None


def sum_usage(events: Iterable[dict[str, Any] | None], since: float = 0.0) -> Usage:
    """Sum the answers of a timeline.

    Args:
        events: Events, the oldest first; None for an unreadable line.
        since: Answers before it are left out; seconds since the epoch.

    Returns:
        The sums.
    """
    usage = Usage()
    seen: dict[str, dict[str, set[int]]] = {}
    read: set[int] = set()
    asked: set[tuple[str, str, str]] = set()
    for event in events:
        if event is None:
            usage.unreadable += 1
            continue
        if event.get("event") != "answer" or not (answer := _Answer.of(event)):
            usage.unreadable += event.get("event") == "answer"
            continue
        if answer.at < since:
            continue
        usage.first = usage.first or answer.at
        usage.last = answer.at
        question = (answer.client, answer.tool, answer.asked)
        day = datetime.fromtimestamp(answer.at, UTC).date().isoformat()
        for sums in (usage.tools.setdefault(answer.tool, AnswerSums()), usage.days.setdefault(day, AnswerSums())):
            sums.calls += 1
            sums.failed += not answer.ok
            sums.repeats += bool(answer.asked) and question in asked
            sums.text_characters += answer.text
            sums.structured_characters += answer.structured
        asked.add(question)
        known = seen.setdefault(answer.client, {})
        if answer.tool == "fetch":
            usage.fetched += len(answer.places)
            for place, file in answer.places:
                searches = known.get(place) or known.get(file) or set()
                usage.fetched_from_results += bool(searches)
                read |= searches
        elif answer.places:
            usage.searches += 1
            for one in {one for pair in answer.places for one in pair if one}:
                known.setdefault(one, set()).add(usage.searches)
    usage.searches_read = len(read)
    return usage


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer of the timeline."""

    at: float
    tool: str
    client: str
    ok: bool
    asked: str
    text: int
    structured: int
    places: list[tuple[str, str]]

    @classmethod
    def of(cls, event: dict[str, Any]) -> _Answer | None:
        """Read an event; None when it is damaged."""
        try:
            places = [(str(place), str(file)) for place, file in event["places"]]
            answer = cls(
                float(event["ts"]), str(event["tool"]), str(event["client"]), event["ok"] is True,
                str(event["asked"]), int(event["text_chars"]), int(event["structured_chars"]), places,
            )  # fmt: skip
            datetime.fromtimestamp(answer.at, UTC)
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return None
        return answer


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else ""
