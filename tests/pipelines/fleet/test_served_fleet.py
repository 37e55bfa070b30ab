"""A fleet answers as one bundle of all its repositories does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.schemas.wire.health import HealthRequest
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.encoders.static import StaticEncoder
from codequarry.serving.engine.engine import Engine
from codequarry.serving.fleet.fleet_engine import FleetEngine
from codequarry.serving.fleet.replica_follower import ReplicaFollower, open_replica
from codequarry.serving.request.admission import Call, begin_call, current_call
from codequarry.serving.request.repository_scope import RepositoryScope
from codequarry.serving.server.chatgpt import FETCH as CONNECTOR_FETCH
from codequarry.serving.server.chatgpt import SEARCH as CONNECTOR_SEARCH
from codequarry.serving.server.descriptions import TOOLS
from codequarry.serving.server.resource import READ
from codequarry.serving.version.open import Bundle
from tests.pipelines.fleet.fleets import Fleet
from tests.pipelines.fleet.replicas import NAMES, Replica, build_replica, write_repository
from tests.serving.scores import recomputed

SETTINGS = ServingSettings(follow_interval_s=0.02)
BY_NAME = {tool.name: tool for tool in (*TOOLS, READ)}
QUESTIONS = (
    "where are expired invoices removed", "open the store of bookings", "exponential backoff", "LedgerStore",
    "retry_billing", "sessions expire after an hour", "the time of the webshop", "shared helper", "remove_expired",
    "LIMIT_OF_WEBSHOP", "baskets until they are settled", "test retry of the ledger",
)  # fmt: skip


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Replica:
    return build_replica(tmp_path_factory.mktemp("fleet"), settings_of)


def settings_of(*repositories: Path, home: Path) -> Settings:
    """Settings of an index; everything below ``home``, but for the store."""
    return Settings.model_validate(
        {
            "paths": {"store": str(home.parent / "store"), "work": str(home / "work")},
            "bundle": {"root": str(home / "bundles")},
            "sources": {"repositories": [{"path": str(path)} for path in repositories]},
            "retrieval": {"enabled": False},
        }
    )


@pytest.fixture(scope="module")
def fleet(replica: Replica) -> Iterator[FleetEngine]:
    engine = open_replica(replica.folder, SETTINGS)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def single(replica: Replica) -> Iterator[Engine]:
    engine = Engine(Bundle.open_current(replica.together.bundle.root, SETTINGS), SETTINGS)
    yield engine
    engine.close()


def ask(engine: Engine | FleetEngine, name: str, **arguments: object) -> dict[str, Any]:
    """The answer of a tool, as structured content."""
    tool = BY_NAME[name]
    return tool.answering(engine)(tool.request.model_validate(arguments)).model_dump(mode="json")


def apart(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what names the index."""
    return {name: value for name, value in answer.items() if name not in ("bundle", "age_s", "limits")}


def test_bundles_of_a_fleet_answer_by_one_encoder(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    open_static = StaticEncoder.open

    def count(directory: Path, spec: EncoderSpec) -> StaticEncoder:
        opened.append(directory)
        return open_static(directory, spec)

    monkeypatch.setattr(StaticEncoder, "open", count)
    engine = open_replica(replica.folder, SETTINGS)
    found = ask(engine, "search", query="expired invoices", channel="faiss", top_k=30)["results"]
    engine.close()
    assert {one["metadata"]["uri"].partition("/")[0] for one in found} == set(NAMES)
    assert len(opened) <= 1  # none where another test has it open


@pytest.mark.parametrize("channel", ["faiss", "bm25", "symbol", "hybrid"])
def test_a_search_finds_what_one_bundle_finds(fleet: FleetEngine, single: Engine, channel: str) -> None:
    same = first = wanted = 0
    for question in QUESTIONS:
        ours = ask(fleet, "search", query=question, channel=channel, top_k=5, explain=True)["results"]
        theirs = ask(single, "search", query=question, channel=channel, top_k=5, explain=True)["results"]
        if channel in ("faiss", "symbol"):
            assert [one["id"] for one in ours] == [one["id"] for one in theirs]
            assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs])
        same += len({one["id"] for one in ours} & {one["id"] for one in theirs})
        first += [one["id"] for one in ours[:1]] == [one["id"] for one in theirs[:1]]
        wanted += len(theirs)
    assert same >= 0.85 * wanted
    if channel != "bm25":  # lengths of fields are compared with the mean of each bundle, which decides between equals
        assert first >= len(QUESTIONS) - 1


def test_parts_of_an_explanation_give_the_score_of_the_fleet(fleet: FleetEngine) -> None:
    results = ask(fleet, "search", query="expired invoices", top_k=8, explain=True)["results"]
    assert {one["metadata"]["uri"].partition("/")[0] for one in results} >= {"billing", "ledger"}
    for one in results:
        assert one["score"] == pytest.approx(recomputed(one["metadata"]["explain"]))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_code", {"pattern": "remove_expired", "mode": "word"}),
        ("search_code", {"pattern": "def (open|retry)_", "mode": "regex", "limit": 4}),
        ("search_code", {"pattern": "expire", "filters": {"repos": ["ledger", "webshop"], "lang": ["markdown"]}}),
        ("go_to_definition", {"symbol": "LedgerStore.remove_expired"}),
        ("go_to_definition", {"uri": "billing/tests/test_billing.py:6"}),
        ("find_references", {"symbol": "BillingStore"}),
        ("find_references", {"symbol": "retry_webshop", "role": "call", "include_definitions": True}),
        ("outline", {"path": "webshop/webshop/store.py"}),
        ("list_files", {"pattern": "**/*.py"}),
        ("list_files", {"pattern": "**/*.py", "class": "test"}),
        ("fetch", {"id": "ledger/ledger/store.py:6-12"}),
        ("fetch", {"objectIds": ["ledger/README.md", "billing/README.md:1-1", "nothing/here.py", "webshop/README.md"]}),
        ("read_resource", {"uri": "repo://ledger/ledger/clock.py#L1-L2"}),
        ("overview", {"repos": ["billing", "webshop"]}),
        ("set_scope", {"repos": ["billing", "ledger"], "languages": ["python"]}),
    ],
)  # fmt: skip
def test_a_tool_answers_as_one_bundle_does(
    fleet: FleetEngine, single: Engine, name: str, arguments: dict[str, object]
) -> None:
    assert apart(ask(fleet, name, **arguments)) == apart(ask(single, name, **arguments))


def arguments_of_all(fleet: FleetEngine) -> dict[str, dict[str, object]]:
    """Arguments of every tool."""
    return {
        "search": {"query": "store"}, "fetch": {"id": "ledger/README.md"}, "semantic_search_pro": {"query": "store"},
        "search_code": {"pattern": "def "}, "go_to_definition": {"symbol": "now_ledger"},
        "find_references": {"symbol": "now_ledger"},
        "relations": {"kind": "callers", "target": "now_ledger"}, "outline": {"path": "billing/billing"},
        "list_files": {}, "overview": {}, "explore": {"query": "remove expired invoices"},
        "set_scope": {"languages": ["python"]},
        "get_scope": {"scope_id": ask(fleet, "set_scope", repos=["ledger"])["scope_id"]}, "describe_index": {},
        "healthz": {}, "read_resource": {"uri": "repo://ledger/README.md"},
    }  # fmt: skip


def test_every_tool_of_every_profile_answers(fleet: FleetEngine) -> None:
    for tool in (*TOOLS, READ):
        answer = ask(fleet, tool.name, **arguments_of_all(fleet)[tool.name])
        if tool.name not in ("read_resource", "semantic_search_pro"):
            assert answer["bundle"]["version"] == "fleet-1", tool.name
            assert len(answer["bundle"]["commits"]) >= 2
    found = CONNECTOR_SEARCH.answering(fleet)(CONNECTOR_SEARCH.request(query="expired invoices")).model_dump()
    read = CONNECTOR_FETCH.answering(fleet)(CONNECTOR_FETCH.request(id=found["results"][0]["id"])).model_dump()
    assert "invoices" in read["text"]


def test_sums_are_of_all_bundles(fleet: FleetEngine, single: Engine) -> None:
    ours, theirs = ask(fleet, "describe_index"), ask(single, "describe_index")
    for name in ("repositories", "repositories_total", "languages", "files", "skipped_files", "chunks", "models"):
        assert ours[name] == theirs[name], name
    assert fleet.health(HealthRequest()).chunks == ours["chunks"]
    assert fleet.health(HealthRequest()).status == "ok"


def test_filters_and_scopes_choose_bundles(fleet: FleetEngine) -> None:
    only = ask(fleet, "search", query="expired", filters={"repos": ["ledger"]}, top_k=50)
    assert {one["metadata"]["uri"].partition("/")[0] for one in only["results"]} == {"ledger"}
    scope = ask(fleet, "set_scope", repos=["billing", "ledger"])["scope_id"]
    found = ask(fleet, "search", query="expired", scope_id=scope, top_k=50)
    assert {one["metadata"]["uri"].partition("/")[0] for one in found["results"]} == {"billing", "ledger"}
    assert ask(fleet, "get_scope", scope_id=scope)["scope"]["repos"] == ["billing", "ledger"]
    both = ask(fleet, "search_code", pattern="def", scope_id=scope, filters={"repos": ["ledger"]})
    assert {one["uri"].partition("/")[0] for one in both["results"]} == {"ledger"}


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("LedgerStore", "ledger"), ("retry_billing", "billing"), ("what time is it in the webshop", "webshop"),
        ("open the store of bookings", "ledger"), ("baskets until they are settled", "webshop"),
    ],
)  # fmt: skip
def test_of_many_bundles_the_most_promising_are_asked(fleet: FleetEngine, question: str, wanted: str) -> None:
    few = FleetEngine(fleet.generation, SETTINGS.model_copy(update={"fleet_bundles": 1}))
    answer = ask(few, "search", query=question, top_k=50)
    assert {one["metadata"]["uri"].partition("/")[0] for one in answer["results"]} == {wanted}
    assert any(note.startswith("1 of 3 bundles were asked") and "filters.repos" in note for note in answer["limits"])
    named = ask(few, "search", query=question, filters={"repos": ["billing"]}, top_k=50)
    assert {one["metadata"]["uri"].partition("/")[0] for one in named["results"]} <= {"billing"}
    assert not any("bundles were asked" in note for note in named["limits"])
    pro = ask(few, "semantic_search_pro", query=question)
    assert {one["uri"].partition("/")[0] for one in pro["findings"]} == {wanted}


def refusal(engine: Engine | FleetEngine, name: str, **arguments: object) -> CodequarryError:
    with pytest.raises(CodequarryError) as caught:
        ask(engine, name, **arguments)
    return caught.value


def test_what_no_bundle_has_is_refused_as_one_bundle_does(fleet: FleetEngine, single: Engine) -> None:
    asked = {"query": "x", "filters": {"repos": ["ledgre"]}}
    assert isinstance(refusal(fleet, "search", **asked), InvalidArgumentError)
    assert str(refusal(fleet, "search", **asked)) == str(refusal(single, "search", **asked))
    assert isinstance(refusal(fleet, "fetch", id="123456789"), NotFoundError)
    assert isinstance(refusal(fleet, "outline", path="nowhere/at/all.py"), (NotFoundError, InvalidArgumentError))
    assert isinstance(refusal(fleet, "set_scope", languages=["klingon"]), InvalidArgumentError)
    assert "no other branches" in refusal(fleet, "search", query="x", filters={"ref": "main"}).message
    assert "neither is given" in refusal(fleet, "fetch").message


def test_a_path_that_several_bundles_have_is_named_with_all_of_them(fleet: FleetEngine) -> None:
    error = refusal(fleet, "fetch", id="common/shared.py")
    assert all(f"{name}/common/shared.py" in error.message for name in NAMES)
    assert "repository/path" in error.suggestion


def test_a_caller_of_one_repository_learns_of_no_other(fleet: FleetEngine) -> None:
    given = arguments_of_all(fleet) | {
        "search": {"query": "expired invoices of billing", "explain": True},
        "search_code": {"pattern": "retry_"},
        "find_references": {"symbol": "remove_expired"},
        "go_to_definition": {"symbol": "shared_helper"},
        "outline": {"path": "common"},
        "get_scope": {"scope_id": ask(fleet, "set_scope", languages=["python"])["scope_id"]},
    }
    before = current_call()
    begin_call(Call(scope=RepositoryScope(("led*",))))
    try:
        for tool in (*TOOLS, READ):
            answer = ask(fleet, tool.name, **given[tool.name])
            text = json.dumps({name: value for name, value in answer.items() if name not in ("queryEcho", "scope")})
            assert "webshop" not in text and "billing/" not in text and "retry_billing" not in text, tool.name
            assert "3 bundles" not in text and "b0001" not in text, tool.name
        assert [one["uri"] for one in ask(fleet, "search_code", pattern="retry_ledger", mode="word")["results"]]
        assert list(ask(fleet, "overview")["bundle"]["commits"]) == ["ledger"]
        nowhere = refusal(fleet, "fetch", id="atlantis/README.md").message.replace("atlantis", "webshop")
        assert refusal(fleet, "fetch", id="webshop/README.md").message == nowhere
        unknown = {"query": "x", "filters": {"repos": ["webshop"]}}
        assert "1 repositories" in refusal(fleet, "search", **unknown).message
    finally:
        begin_call(before)


def test_a_caller_of_nothing_finds_an_empty_index(fleet: FleetEngine) -> None:
    before = current_call()
    begin_call(Call(scope=RepositoryScope(("atlantis",))))
    try:
        assert ask(fleet, "search", query="expired invoices")["results"] == []
        assert ask(fleet, "list_files")["total"] == ask(fleet, "describe_index")["repositories_total"] == 0
        assert isinstance(refusal(fleet, "fetch", id="ledger/README.md"), NotFoundError)
        assert isinstance(refusal(fleet, "read_resource", uri="repo://ledger/README.md"), NotFoundError)
        assert "neither is given" in refusal(fleet, "fetch").message
        assert fleet.health(HealthRequest()).chunks == 0
    finally:
        begin_call(before)


@contextmanager
def followed(replica: Replica, folder: Path) -> Iterator[tuple[Replica, FleetEngine, ReplicaFollower]]:
    """A copy of the replica that may change, and an engine that follows it."""
    shutil.copytree(replica.folder, folder, symlinks=True)
    settings = {
        name: each.model_copy(
            update={"bundle": each.bundle.model_copy(update={"root": folder / "bundles" / each.bundle.root.name})}
        )
        for name, each in replica.settings.items()
    }
    copy = Replica(folder, replica.repositories, settings, replica.together)
    engine = open_replica(folder, SETTINGS)
    assert engine.follower is not None
    engine.follower.stop()  # looked at by hand
    yield copy, engine, engine.follower
    engine.close()


def test_a_generation_that_arrives_is_served_as_a_whole(replica: Replica, tmp_path: Path) -> None:
    with followed(replica, tmp_path / "copy") as (copy, engine, follower):
        before = engine.generation.served
        write_repository(copy.repositories / "ledger", "ledger", "\n\ndef brand_new_booking() -> int:\n    return 1\n")
        copy.index("ledger")
        follower.look()
        assert not ask(engine, "go_to_definition", symbol="brand_new_booking")["results"]
        copy.hold(2)
        follower.look()
        answer = ask(engine, "go_to_definition", symbol="brand_new_booking")
        assert [one["uri"] for one in answer["results"]] == ["ledger/ledger/store.py"]
        assert answer["bundle"]["version"] == "fleet-2"
        now = engine.generation.served
        assert [now[name] is before[name] for name in sorted(now)] == [True, False, True]


def test_a_generation_with_a_damaged_bundle_is_refused_and_the_one_before_stays(
    replica: Replica, tmp_path: Path
) -> None:
    with followed(replica, tmp_path / "copy") as (copy, engine, follower):
        write_repository(copy.repositories / "webshop", "webshop", "\n\ndef another_basket() -> int:\n    return 1\n")
        copy.index("webshop")
        held = copy.hold(2)
        line = held.fleet.bundles["b0003"]
        (copy.root.bundle("b0003").version(line.version).manifest).write_bytes(b"{}")
        follower.look()
        health = engine.health(HealthRequest())
        assert health.status == "degraded" and not health.follows_current
        assert health.refused is not None and "generation 2, b0003" in health.refused.reason
        answer = ask(engine, "search_code", pattern="remove_expired")
        assert answer["bundle"]["version"] == "fleet-1" and not answer["limits"]


def test_a_bundle_that_cannot_be_opened_at_the_start_is_named_in_each_answer(replica: Replica, tmp_path: Path) -> None:
    shutil.copytree(replica.folder, tmp_path / "copy", symlinks=True)
    (path,) = (tmp_path / "copy/bundles/b0002/versions").iterdir()
    (path / "manifest.json").write_bytes(b"{}")
    engine = open_replica(tmp_path / "copy", SETTINGS)
    try:
        for name, arguments in (
            ("search", {"query": "store"}),
            ("search_code", {"pattern": "def"}),
            ("list_files", {}),
        ):
            limits = ask(engine, name, **arguments)["limits"]
            assert any(note.startswith("bundle b0002 is missing in this answer") for note in limits), name
        assert engine.health(HealthRequest()).status == "degraded"
    finally:
        engine.close()


def test_an_agent_asks_a_fleet_over_mcp(replica: Replica) -> None:
    command = ["-m", "codequarry.pipelines.cli", "serve", "--stdio", "--fleet", str(replica.folder)]

    async def asked() -> tuple[str, dict[str, Any]]:
        async with Client(StdioTransport(sys.executable, command, env=dict(os.environ))) as client:
            searched = await client.call_tool("search", {"query": "where are expired invoices removed"})
            found = await client.call_tool("go_to_definition", {"symbol": "LedgerStore"})
            return str(searched.content[0]), found.structured_content or {}

    text, found = asyncio.run(asked())
    assert "billing/billing/store.py" in text
    assert [one["uri"] for one in found["results"]] == ["ledger/ledger/store.py"]


def test_a_push_to_one_repository_reaches_an_agent(local: Fleet) -> None:
    Path(local.url.removeprefix("file://")).mkdir(parents=True)
    command = [sys.executable, "-P", "-m", "codequarry.pipelines.cli", "fleet", "follow", "--every", "0.1"]
    with subprocess.Popen(
        [*command, "--root", "replica", "--settings", "fleet.toml"], cwd=local.home, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "300"},
    ) as follower:  # fmt: skip
        assert follower.stderr is not None
        lines = iter(follower.stderr.readline, "")
        assert any("no fleet" in line for line in lines)
        local("build")
        assert any("held is generation 1, 3 bundles of 3" in line for line in lines)
        engine = open_replica(local.home / "replica", SETTINGS)
        try:
            assert ask(engine, "overview")["repositories_total"] == len(local.current.bundle_of)
            local.save("cat", "brand_new")
            local("build")
            found = once_served(engine, "fleet-2")
            assert found["total"] and {one["uri"].partition("/")[0] for one in found["results"]} == {"cat"}
            local("rollback")
            assert not once_served(engine, "fleet-3")["total"]
        finally:
            engine.close()
        follower.terminate()
        assert any("stopped following" in line for line in lines)
        assert follower.wait(60) == 0


def once_served(engine: FleetEngine, generation: str) -> dict[str, Any]:
    """The matches of a word once a generation is served."""
    deadline = time.monotonic() + 60
    while engine.version_name != generation and time.monotonic() < deadline:
        time.sleep(0.02)
    found = ask(engine, "search_code", pattern="brand_new")
    assert found["bundle"]["version"] == generation
    return found


def test_a_folder_that_is_no_replica_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CodequarryError) as caught:
        open_replica(tmp_path, SETTINGS)
    assert "codequarry fleet pull" in caught.value.suggestion
