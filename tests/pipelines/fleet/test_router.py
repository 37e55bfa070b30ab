"""A router over replicas on several machines answers as one server that holds all bundles."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.settings.service import AuthSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.fleet.replica_door import ReplicaDoor
from codequarry.serving.fleet.replica_follower import open_replica
from codequarry.serving.fleet.router_engine import RouterEngine
from codequarry.serving.http.app import Service, http_app
from codequarry.serving.http.auth import build_auth
from codequarry.serving.request.repository_scope import EVERYTHING, RepositoryScope
from codequarry.serving.tools.search import search
from tests.pipelines.fleet.replicas import Replica, build_replica
from tests.pipelines.fleet.test_served_fleet import settings_of

TOKENS = {name: f"{name}-secret" for name in ("router", "narrow-router", "agent", "clerk", "nobody")}
HASHES = [f"{name}:{hashlib.sha256(token.encode()).hexdigest()}" for name, token in TOKENS.items()]
GRANTS = {"router": ["*"], "narrow-router": ["ledger"], "agent": ["*"], "clerk": ["ledger", "webshop"]}
AUTH = AuthSettings.model_validate({"tokens": HASHES, "grants": GRANTS, "routers": ["router", "narrow-router"]})
SETTINGS = f"""
[auth]
tokens = {json.dumps(HASHES)}
routers = ["router", "narrow-router"]
[auth.grants]
{"".join(f"{name} = {json.dumps(globs)}{chr(10)}" for name, globs in GRANTS.items())}
[serving]
follow_interval_s = 0.1
replica_timeout_s = 3.0
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "where are expired invoices removed", "explain": True}),
    ("search", {"query": "LedgerStore"}),
    ("search", {"query": "exponential backoff", "top_k": 5, "filters": {"repos": ["webshop"]}}),
    ("search", {"query": "sessions expire after an hour", "channel": "bm25"}),
    ("search", {"query": "the time of the webshop", "channel": "faiss"}),
    ("search", {"query": ""}),
    ("search", {"query": "x", "filters": {"repos": ["billing"]}}),
    ("fetch", {"id": "ledger/ledger/store.py:6-12"}),
    ("fetch", {"objectIds": ["ledger/README.md", "billing/README.md", "nothing/here.py", "webshop/README.md"]}),
    ("fetch", {"id": "common/shared.py"}),
    ("search_code", {"pattern": "remove_expired", "mode": "word"}),
    ("search_code", {"pattern": "(", "mode": "regex"}),
    ("go_to_definition", {"symbol": "LedgerStore.remove_expired"}),
    ("go_to_definition", {"symbol": "no_such_thing"}),
    ("find_references", {"symbol": "retry_webshop", "include_definitions": True}),
    ("relations", {"kind": "callers", "target": "retry_webshop"}),
    ("relations", {"kind": "affected_tests", "target": "webshop/webshop/store.py"}),
    ("outline", {"path": "webshop/webshop/store.py"}),
    ("list_files", {"pattern": "**/*.py"}),
    ("overview", {}),
    ("explore", {"query": "remove expired bookings"}),
    ("set_scope", {"repos": ["ledger", "webshop"], "languages": ["python"]}),
    ("describe_index", {}),
    ("semantic_search_pro", {"query": "open the store of bookings"}),
]
TIMES = ("age_s", "duration_s", "run_id")


@dataclass(frozen=True)
class Process:
    """A server in a process of its own."""

    url: str
    process: subprocess.Popen[str]

    def ask(self, name: str, arguments: dict[str, Any], client: str = "agent") -> tuple[int, dict[str, Any]]:
        """Status and answer of a tool."""
        return post(f"{self.url}/mcp/tools/{name}", arguments, TOKENS[client])


def post(url: str, body: object, token: str = "") -> tuple[int, dict[str, Any]]:
    """Status and JSON of an answer; {} where it is none."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        raw = error.read()
        return error.code, json.loads(raw) if raw.startswith(b"{") else {}


@contextmanager
def started(home: Path, *command: str) -> Iterator[Process]:
    """Run a server on a free port until the block ends."""
    home.mkdir(exist_ok=True)
    (home / "settings.toml").write_text(SETTINGS)
    program = [sys.executable, "-P", "-m", "codequarry.pipelines.cli", *command]
    with subprocess.Popen(
        [*program, "--port", "0", "--settings", "settings.toml"], cwd=home, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "CODEQUARRY_REPLICA_TOKEN": TOKENS["router"]},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            lines: list[str] = []
            for line in iter(process.stderr.readline, ""):
                lines.append(line)
                if line.startswith("serving "):
                    break
            else:
                raise AssertionError("".join(lines))
            yield Process(lines[-1].split()[-1].removesuffix("/mcp"), process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Replica:
    return build_replica(tmp_path_factory.mktemp("routed"), settings_of)


@pytest.fixture(scope="module")
def halves(replica: Replica) -> list[Path]:
    """Folders of two replicas, of which each holds a share."""
    folders = [replica.folder.parent / f"half-{number}" for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        shutil.copytree(replica.root.bundles, folder / "bundles", copy_function=os.link)
        held = replica.root.read().model_copy(update={"share": f"{number}/2"})
        (folder / "fleet.json").write_text(held.model_dump_json())
    return folders


@pytest.fixture(scope="module")
def servers(halves: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, list[Process]]]:
    """A router, and two replicas behind it."""
    base = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(started(base / folder.name, "serve", "--fleet", str(folder))) for folder in halves
        ]
        addresses = [part for one in replicas for part in ("--replica", one.url)]
        yield stack.enter_context(started(base / "router", "route", *addresses)), replicas


@pytest.fixture(scope="module")
def oracle(replica: Replica) -> Iterator[TestClient]:
    """One server with all bundles."""
    engine = open_replica(replica.folder, ServingSettings())
    with TestClient(http_app(Service(engine, "1", build_auth(AUTH))), base_url="http://127.0.0.1") as client:
        yield client
    engine.close()


def without_times(answer: Any) -> Any:
    """The answer without what differs from call to call."""
    if isinstance(answer, dict):
        return {name: without_times(value) for name, value in answer.items() if name not in TIMES}
    return [without_times(one) for one in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize("client", ["agent", "clerk", "nobody"])
def test_a_router_answers_as_one_server_with_all_bundles(
    servers: tuple[Process, list[Process]], oracle: TestClient, client: str
) -> None:
    for name, arguments in CALLS:
        ours = servers[0].ask(name, arguments, client)
        theirs = oracle.post(
            f"/mcp/tools/{name}", json=arguments, headers={"authorization": f"Bearer {TOKENS[client]}"}
        )
        assert ours[0] == theirs.status_code, (name, arguments)
        assert without_times(ours[1]) == without_times(theirs.json()), (name, arguments)


def test_row_35_only_routers_that_a_replica_names_are_answered(servers: tuple[Process, list[Process]]) -> None:
    router, replicas = servers
    path = "/fleet/ask"
    assert post(replicas[0].url + path, {})[0] == 401
    assert post(replicas[0].url + path, {}, "guessed")[0] == 401
    assert post(replicas[0].url + path, {}, TOKENS["agent"])[0] == 403
    assert post(router.url + path, {}, TOKENS["router"])[0] in (404, 405)  # a router is no replica
    status, told = post(replicas[0].url + path, {}, TOKENS["router"])
    assert status == 200 and "billing" in told["state"]


def test_the_scope_of_a_caller_only_narrows_the_grants_of_the_router(halves: list[Path]) -> None:
    engine = open_replica(halves[0], ServingSettings())
    door = ReplicaDoor(engine)
    try:
        begin = {
            "sha256": engine.generation.sha256, "scope": ["*"], "seconds": 5, "tool": "list_files",
            "requests": {"b0001": "{}"},
        }  # fmt: skip
        everything = door.answer(json.dumps({"begin": begin}).encode(), "router", EVERYTHING)
        assert "billing/README.md" in everything["answers"]["b0001"]["answer"]
        narrow = RepositoryScope(("webshop",))
        refused = door.answer(json.dumps({"begin": begin}).encode(), "narrow-router", narrow)
        assert "billing" not in json.dumps(refused)
        assert "billing" not in door.state(narrow).model_dump_json(exclude={"health"})
        other = door.answer(json.dumps({"begin": {**begin, "sha256": "0" * 64}}).encode(), "router", EVERYTHING)
        assert other["other_generation"] is True
        for body in (b"{", b'{"begin": {}}', json.dumps({"begin": {**begin, "tool": "search_sql"}}).encode()):
            assert door.answer(body, "router", EVERYTHING)["error"]["code"] == "INVALID_ARGUMENT"
        late = door.answer(b'{"call": "gone", "step": "rank"}', "router", EVERYTHING)
        assert late["error"]["code"] == "UNAVAILABLE"
    finally:
        door.close()
        engine.close()


def test_a_router_without_replicas_says_what_is_missing() -> None:
    engine = RouterEngine(ServingSettings(replicas=("http://127.0.0.1:9",), replica_timeout_s=0.5))
    try:
        with pytest.raises(UnavailableError, match="its replica does not answer"):
            engine.answer_admitted("search", search, SearchRequest(query="anything"))
    finally:
        engine.close()


def test_a_replica_that_dies_under_load_is_named_and_no_call_fails(servers: tuple[Process, list[Process]]) -> None:
    router, replicas = servers
    ending = time.monotonic() + 2.5

    def load(number: int) -> list[tuple[int, dict[str, Any]]]:
        found: list[tuple[int, dict[str, Any]]] = []
        while time.monotonic() < ending:
            found.append(router.ask("search", {"query": f"remove expired bookings {number}"}))
        return found

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(load, number) for number in range(3)]
        time.sleep(0.8)
        replicas[1].process.kill()  # share 2/2: the bundle of the ledger
        answers = [answer for each in running for answer in each.result()]
    assert {status for status, _ in answers} == {200}
    whole = [answer for _, answer in answers if not any("is missing" in note for note in answer.get("limits", []))]
    assert whole and len(whole) < len(answers)
    last = router.ask("search", {"query": "remove expired bookings"})[1]
    assert any("bundle b0002 is missing in this answer (ledger)" in note for note in last["limits"])
    assert {one["metadata"]["uri"].partition("/")[0] for one in last["results"]} == {"billing", "webshop"}
    assert "127.0.0.1" not in json.dumps(last)
    hidden = router.ask("search", {"query": "remove expired bookings"}, "nobody")[1]
    assert "ledger" not in json.dumps(hidden) and "b0002" not in json.dumps(hidden)
