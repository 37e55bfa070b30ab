"""`codequarry usage`: a timeline that a server wrote, and none."""

from __future__ import annotations

import json
from pathlib import Path

from tests.serving.telemetry.test_telemetry import ask, listening


def test_without_a_timeline_it_says_how_to_switch_it_on(run) -> None:
    code, out, _ = run("usage")
    assert code == 0
    assert 'timeline = "file"' in out
    assert json.loads(run("usage", "--json")[1])["tools"] == {}


def test_a_timeline_that_is_switched_on_and_empty_is_told_apart(run, monkeypatch) -> None:
    monkeypatch.setenv("CODEQUARRY__TELEMETRY__TIMELINE", "file")
    code, out, _ = run("usage", "--since", "7d")
    assert code == 0
    assert "[telemetry]" not in out


def test_what_a_server_wrote_is_summed_up(run, lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path / ".codequarry" / "telemetry")
    first = ask(own, query="open")
    ask(own, query="open")
    ask(own, "fetch", id=first.structured_content["results"][0]["id"])
    telemetry.close()
    values = json.loads(run("usage", "--json")[1])
    assert values["tools"]["search"]["calls"] == 2
    assert values["tools"]["search"]["repeats"] == 1
    assert values["tools"]["search"]["text_tokens"] == -(-2 * sum(len(item.text) for item in first.content) // 4)
    assert values["searches"] == {"with_results": 2, "fetched_from": 2}
    assert values["fetches"] == {"objects": 1, "from_results": 1}
    code, out, _ = run("usage", "--since", values["first"][:10])
    assert code == 0
    assert "search" in out
    assert run("usage", "--since", "2999-01-01")[1] != out


def test_a_start_that_is_no_day_is_refused(run) -> None:
    for given in ("yesterday", "2026-13-01", "99999999d", "99999d9"):
        assert run("usage", "--since", given)[0] == 2
