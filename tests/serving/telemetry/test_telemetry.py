"""Metrics, timeline and pool log: what they say, what they keep to themselves, and that no request waits for them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from codequarry.schemas.catalog.session_tables import POOLS, pools_view
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.settings.service import TelemetrySettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.server.mcp import build_server
from codequarry.serving.telemetry import telemetry as module
from codequarry.serving.telemetry.telemetry import Telemetry
from tests.serving.live import request, running
from tests.serving.server.test_mcp import ERAS, call

INJECTION = 'open\r\n{"event":"forged"}\x1b[31m\u2028 canary'


def listening(engine: Engine, **settings: Any) -> tuple[Engine, Telemetry]:
    """The same bundle behind an engine of its own, with telemetry."""
    own = Engine(engine.bundle, ServingSettings(max_concurrency=2))
    own.telemetry = Telemetry(TelemetrySettings(**settings), own.served.lease)
    return own, own.telemetry


def ask(engine: Engine, tool: str = "search", **arguments: Any) -> Any:
    return call(build_server(engine, version="0"), ERAS[0], tool, arguments)


def sample(telemetry: Telemetry, name: str, **labels: str) -> float:
    return telemetry.metrics.registry.get_sample_value(name, labels) or 0.0


def test_every_promised_metric_is_exposed_over_http(engine) -> None:
    own, _ = listening(engine)
    ask(own, query="open the file", filters={"lang": ["python"]})
    ask(own, "fetch", objectIds=["1"])
    ask(own, "fetch", id="1")
    with running(Service(own, "0")) as port:
        status, body = request(port, "GET", "/metrics")
    assert status == 200
    text = body.decode()
    for name in (
        "faiss_ann_latency_seconds", "faiss_refine_latency_seconds", "mcp_search_latency_seconds",
        "mcp_fetch_latency_seconds", "mcp_stage_latency_seconds", "mcp_tool_latency_seconds",
        "mcp_search_postfilter_density",
    ):  # fmt: skip
        assert f"# TYPE {name} histogram" in text
    for name in ("mcp_degradations", "mcp_gate_decisions", "mcp_rejections", "mcp_telemetry_dropped"):
        assert f"# TYPE {name}_total counter" in text
    for stage in ("bm25", "faiss", "faiss_ann", "fusion", "hydration"):
        assert f'mcp_stage_latency_seconds_count{{stage="{stage}"}} 1.0' in text


def test_requests_rejections_and_degradations_are_counted(lexical_engine) -> None:
    own, telemetry = listening(lexical_engine)
    ask(own, query="open")
    ask(own, query="open", channel="faiss")
    ask(own, "fetch", id="1")
    ask(own, query="\0")
    with own.gate.place(), own.gate.place():
        ask(own, query="open")
    assert sample(telemetry, "mcp_search_latency_seconds_count") == 3
    assert sample(telemetry, "mcp_rejections_total", tool="fetch", code="NOT_FOUND") == 1
    assert sample(telemetry, "mcp_rejections_total", tool="search", code="INVALID_ARGUMENT") == 1
    assert sample(telemetry, "mcp_rejections_total", tool="search", code="BUSY") == 1
    assert sample(telemetry, "mcp_gate_decisions_total", gate="admission", decision="busy") == 1
    assert sample(telemetry, "mcp_gate_decisions_total", gate="admission", decision="admitted") == 4
    assert sample(telemetry, "mcp_degradations_total", channel="faiss") == 2


def test_a_channel_that_breaks_is_counted_as_a_degradation(lexical_engine, monkeypatch) -> None:
    own, telemetry = listening(lexical_engine)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(own.bundle.channels["bm25"], "search", broken, raising=False)
    ask(own, query="open")
    assert sample(telemetry, "mcp_degradations_total", channel="bm25") == 1


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / module.TIMELINE).read_text().splitlines()]


def test_the_timeline_has_a_start_and_a_finish_of_each_request(lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path / "t")
    ask(own, query=INJECTION, filters={"lang": ["python"], "include": ["canary/**"]})
    ask(own, "fetch", id="1")
    telemetry.close()
    events = lines(tmp_path / "t")
    assert [(one["event"], one["tool"]) for one in events] == [
        ("start", "search"), ("finish", "search"), ("answer", "search"),
        ("start", "fetch"), ("finish", "fetch"), ("answer", "fetch"),
    ]  # fmt: skip
    start, finish = events[:2]
    assert start["run_id"] == finish["run_id"] == events[2]["run_id"] != events[3]["run_id"]
    assert start["filters"] == {"lang": 1, "include": 1}
    assert set(finish["stages"]) >= {"bm25"}
    assert finish["fan_out"] == {"bm25": 0}
    assert finish["version"] == own.bundle.manifest.version
    assert (finish["outcome"], events[4]["outcome"]) == ("ok", "NOT_FOUND")
    assert "canary" not in (tmp_path / "t" / module.TIMELINE).read_text()


def test_meta_of_an_answer_has_the_run_of_the_timeline(lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path)
    meta = ask(own, query="open", channel="bm25", rerank=False).meta
    refused = ask(own, "fetch", id="1").meta
    telemetry.close()
    start, finish, _, _, failed, _ = lines(tmp_path)
    assert (start["run_id"], finish["run_id"], failed["run_id"]) == (meta["run_id"], meta["run_id"], refused["run_id"])
    assert (start["channel"], start["rerank"], start["client"]) == ("bm25", False, "")
    assert meta["stages_ms"] == pytest.approx(
        {name: 1000 * seconds for name, seconds in finish["stages"].items()}, abs=0.1
    )
    assert meta["decisions"] == finish["decisions"] == {}


def test_meta_needs_no_telemetry_and_the_client_is_told_over_http(lexical_engine, tmp_path: Path) -> None:
    first, second, health = (ask(lexical_engine, **each).meta for each in (
        {"query": "open"}, {"query": "open"}, {"tool": "healthz"},
    ))  # fmt: skip
    assert len({first["run_id"], second["run_id"], health["run_id"]}) == 3
    assert first["stages_ms"].keys() >= {"bm25", "fusion", "hydration"}
    assert health["stages_ms"] == {}
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path)
    with running(Service(own, "0")) as port:
        assert request(port, "POST", "/mcp/tools/search", '{"query": "open"}', {})[0] == 200
    telemetry.close()
    assert lines(tmp_path)[0]["client"] == "127.0.0.1"


def test_queries_are_written_only_when_the_settings_say_so_and_forge_no_lines(lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path, queries=True)
    ask(own, query=INJECTION)
    telemetry.close()
    events = lines(tmp_path)
    assert [one["event"] for one in events] == ["start", "finish", "answer"]
    assert events[0]["query"] == INJECTION
    assert (tmp_path / module.TIMELINE).read_bytes().isascii()


def test_the_timeline_has_the_size_of_each_answer_and_only_digests_of_what_it_is_about(
    lexical_engine, tmp_path: Path
) -> None:
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path)
    found = ask(own, query="open the canary file")
    ask(own, query="open the canary file")
    read = ask(own, "fetch", id=found.structured_content["results"][0]["id"])
    refused = ask(own, query="\0")
    health = ask(own, "healthz")
    telemetry.close()
    answers = [one for one in lines(tmp_path) if one["event"] == "answer"]
    assert [one["tool"] for one in answers] == ["search", "search", "fetch", "search", "healthz"]
    for answer, result in zip(answers[:1] + answers[2:], (found, read, refused, health), strict=True):
        assert answer["text_chars"] == sum(len(item.text) for item in result.content)
        assert answer["structured_chars"] == len(
            json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
        )
        assert answer["ok"] == (not result.is_error)
    assert answers[0]["asked"] == answers[1]["asked"] != answers[3]["asked"]
    assert answers[2]["places"][0] in answers[0]["places"]
    text = (tmp_path / module.TIMELINE).read_text()
    assert "canary" not in text
    assert found.structured_content["results"][0]["id"] not in text


def test_digests_of_two_servers_have_nothing_in_common(lexical_engine, tmp_path: Path) -> None:
    for name in ("a", "b"):
        own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path / name)
        ask(own, query="open")
        telemetry.close()
    first, second = (lines(tmp_path / name)[2] for name in ("a", "b"))
    assert first["text_chars"] == second["text_chars"]
    assert first["asked"] != second["asked"]
    assert first["places"] != second["places"]


def test_the_timeline_may_go_to_stderr(lexical_engine, capsys: pytest.CaptureFixture[str]) -> None:
    own, telemetry = listening(lexical_engine, timeline="stderr")
    ask(own, query="open")
    telemetry.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [json.loads(line)["event"] for line in captured.err.splitlines()] == ["start", "finish", "answer"]


def test_the_timeline_starts_over_when_it_is_full(lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path, timeline_bytes=1_000)
    for _ in range(12):
        ask(own, "fetch", id="1")
    telemetry.close()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert "timeline.1.jsonl" in kept
    assert len(kept) <= 2
    assert all((tmp_path / name).stat().st_size < 2_000 for name in kept)


def pools(folder: Path) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        return (
            connection.sql(f"SELECT * FROM ({pools_view(folder / 'pools')}) ORDER BY ts, channel, rank")
            .to_arrow_table()
            .to_pylist()
        )


def test_the_pool_log_holds_every_candidate_of_every_channel(engine, tmp_path: Path) -> None:
    own, telemetry = listening(engine, pools=True, folder=tmp_path)
    ask(own, query="Index.open")
    telemetry.close()
    rows = pools(tmp_path)
    assert list(rows[0]) == POOLS.names
    assert {row["channel"] for row in rows} == {"bm25", "faiss"}
    assert [row["rank"] for row in rows if row["channel"] == "faiss"] == list(
        range(1, sum(row["channel"] == "faiss" for row in rows) + 1)
    )
    assert {row["bundle"] for row in rows} == {own.bundle.manifest.version}
    assert {row["query"] for row in rows} == {""}
    assert len({row["query_id"] for row in rows}) == 1
    assert any(row["cst_matches"] for row in rows)


def test_the_pool_log_names_definitions_and_kinds(symbol_engine, tmp_path: Path) -> None:
    own, telemetry = listening(symbol_engine, pools=True, queries=True, folder=tmp_path)
    ask(own, query="open the index")
    telemetry.close()
    rows = pools(tmp_path)
    assert {row["query"] for row in rows} == {"open the index"}
    assert any("open" in row["symbol_hits"] for row in rows)
    assert any("method" in row["ast_node_kinds"] or "function" in row["ast_node_kinds"] for row in rows)


def test_parts_are_rotated_and_sampled(lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, pools=True, folder=tmp_path, pool_part_rows=1, pool_parts=3)
    for _ in range(6):
        ask(own, query="open")
    telemetry.close()
    assert len(list((tmp_path / "pools").glob("*.parquet"))) == 3
    assert not list((tmp_path / "pools").glob("*.writing"))
    own, telemetry = listening(lexical_engine, pools=True, folder=tmp_path / "none", pool_sample=0)
    ask(own, query="open")
    telemetry.close()
    assert not (tmp_path / "none").exists()


def test_a_disk_that_cannot_be_written_costs_events_and_nothing_else(lexical_engine, tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    own, telemetry = listening(lexical_engine, timeline="file", pools=True, folder=blocked, pool_part_rows=1)
    assert ask(own, query="open").structured_content["results"]
    telemetry.close()
    assert sample(telemetry, "mcp_telemetry_dropped_total") >= 3
    assert blocked.read_text() == ""


def test_a_writer_that_hangs_keeps_no_request_waiting(lexical_engine, tmp_path: Path, monkeypatch) -> None:
    hang = threading.Event()
    monkeypatch.setattr(module._Timeline, "write", lambda *_: hang.wait(20))
    monkeypatch.setattr(module, "_QUEUED", 4)
    own, telemetry = listening(lexical_engine, timeline="file", folder=tmp_path)
    try:
        for _ in range(8):
            assert ask(own, query="open").structured_content["results"]
        assert sample(telemetry, "mcp_telemetry_dropped_total") > 0
    finally:
        hang.set()
    started = time.monotonic()
    telemetry.close()
    assert time.monotonic() - started < 20


def test_nothing_is_written_unless_asked(lexical_engine, tmp_path: Path) -> None:
    own, telemetry = listening(lexical_engine, folder=tmp_path / "t")
    ask(own, query="open")
    telemetry.close()
    assert not (tmp_path / "t").exists()


def test_a_folder_inside_of_the_bundle_is_refused(run, lexical_root: Path, monkeypatch) -> None:
    monkeypatch.setenv("CODEQUARRY__TELEMETRY__FOLDER", str(lexical_root / "versions"))
    monkeypatch.setenv("CODEQUARRY__TELEMETRY__POOLS", "true")
    code, _, err = run("serve", "--stdio", "--root", lexical_root)
    assert code == 2
    assert "telemetry.folder lies inside of bundle.root" in err
