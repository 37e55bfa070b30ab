"""Sums over a timeline: tokens, repeats, and fetches of what searches found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codequarry.serving.telemetry.usage import TIMELINE, read_timeline, sum_usage

DAY = 86_400.0


def answer(tool: str = "search", at: float = DAY, **given: Any) -> dict[str, Any]:
    fields = {"client": "", "ok": True, "asked": "q", "text_chars": 10, "structured_chars": 101, "places": []}
    return {"ts": at, "event": "answer", "tool": tool, **fields, **given}


def test_tokens_are_summed_by_tool_and_day() -> None:
    usage = sum_usage([answer(), answer(at=2 * DAY, asked="r"), answer("fetch", ok=False), {"event": "start"}])
    values = usage.as_dict()
    assert values["tools"]["search"] == {
        "calls": 2, "failed": 0, "repeats": 0, "text_tokens": 5, "text_tokens_per_call": 2.5, "structured_tokens": 51,
        "structured_tokens_per_call": 25.5,
    }  # fmt: skip
    assert values["tools"]["fetch"]["failed"] == 1
    assert {day: one["calls"] for day, one in values["days"].items()} == {"1970-01-02": 2, "1970-01-03": 1}
    assert (values["first"], values["last"]) == ("1970-01-02T00:00:00+00:00", "1970-01-02T00:00:00+00:00")


def test_answers_before_the_start_are_left_out() -> None:
    assert sum_usage([answer(), answer(at=3 * DAY)], since=2 * DAY).tools["search"].calls == 1


def test_a_repeat_is_the_same_question_of_the_same_client_to_the_same_tool() -> None:
    usage = sum_usage([answer(), answer(), answer(client="b"), answer("search_code"), answer(asked="r"), answer()])
    assert usage.tools["search"].repeats == 2
    assert usage.tools["search_code"].repeats == 0


def test_fetches_of_results_are_told_from_others() -> None:
    usage = sum_usage(
        [
            answer(places=[["a", "f"], ["b", "g"]]),
            answer(places=[["c", "h"]]),
            answer(client="other", places=[["d", ""]]),
            answer("fetch", places=[["a", "f"], ["z", "y"], ["new", "g"], ["d", ""]]),
        ]
    )
    assert (usage.searches, usage.searches_read) == (3, 1)
    assert (usage.fetched, usage.fetched_from_results) == (4, 2)


def test_an_object_without_a_file_is_no_result_of_another_without() -> None:
    usage = sum_usage([answer(places=[["a", ""]]), answer("fetch", places=[["b", ""]])])
    assert usage.fetched_from_results == 0


def test_damaged_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    broken = [answer(places=1), answer(at="x"), answer(at=1e300), answer(text_chars="many"), {"event": "answer"}]
    (tmp_path / "timeline.1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [answer(), *broken]))
    (tmp_path / TIMELINE).write_text('{"cut\n[]\n' + json.dumps(answer(at=2 * DAY)) + "\n")
    usage = sum_usage(read_timeline(tmp_path))
    assert usage.unreadable == 7
    assert (usage.tools["search"].calls, usage.first, usage.last) == (2, DAY, 2 * DAY)


def test_no_timeline_has_no_answers(tmp_path: Path) -> None:
    assert sum_usage(read_timeline(tmp_path)).as_dict()["tools"] == {}
