"""What a caller gets over HTTP who may see some repositories: what it would get if there were no others."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.settings.service import AuthSettings, TelemetrySettings
from codequarry.schemas.wire.scope import Scope, SetScopeRequest
from codequarry.serving.cli.clients import new_token
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.http.auth import build_auth
from codequarry.serving.server.mcp import listed_tools
from codequarry.serving.telemetry.telemetry import Telemetry
from codequarry.serving.telemetry.usage import TIMELINE
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.symbol_rows import Source, pieces_and_rows
from tests.serving.live import request, running

SEEN, HIDDEN = ("billing", "ledger-eu"), ("ledger", "vault")
OWN = {"billing": "invoice", "ledger-eu": "posting", "ledger": "zebrafish", "vault": "quokka"}
"""Words that one repository alone has, in a name, a path and a text."""
CANARIES = re.compile(rb"zebrafish|quokka|vault|ledger(?!-)", re.IGNORECASE)
"""What tells of a hidden repository: its name, its path, its words."""
COMMITS = {repo: f"{number}" * 40 for number, repo in enumerate((*SEEN, *HIDDEN), 1)}
TOKENS = {name: new_token() for name in ("clerk", "owner", "guest")}
KEYS = RSAKeyPair.generate()
FULL = {tool["name"]: tool for tool in listed_tools("full")}
RANKED = frozenset({"search", "semantic_search_pro", "explore"})
"""Their scores count how frequent a word is in the whole version."""


def sources(repo: str) -> list[Source]:
    """Files of a repository: the names of all, and those of its own."""
    own = OWN[repo]
    text = (
        f'class Index:\n    def open(self, path):\n        """Open the {own} index."""\n        return {own}_of(path)\n'
    )
    index = Source("io/index.py", text, repo=repo)
    index.define("Index", "class", body=index.text.rstrip())
    index.define(
        "Index.open", "method", doc=f"Open the {own} index.", body=index.text[index.text.index("def ") :].rstrip()
    )
    store = Source(
        f"lib/{own}_store.py",
        f"from io.index import Index\n\n\ndef {own}_of(path):\n    return Index().open(path)\n\n\n"
        f"def use():\n    return {own}_of(1)\n",
        repo=repo,
    )
    store.define(f"{own}_of", "function", body=f"def {own}_of(path):\n    return Index().open(path)")
    store.define("use", "function", body=f"def use():\n    return {own}_of(1)")
    store.refer("Index", "import")
    store.refer("open", "call")
    store.refer(f"{own}_of", "call", nth=1)
    tests = Source("tests/test_index.py", "def test_open():\n    Index().open(1)\n", repo=repo)
    tests.define("test_open", "function", body="def test_open():\n    Index().open(1)")
    tests.refer("open", "call")
    return [index, store, tests]


def write(root: Path, repos: tuple[str, ...]) -> Path:
    pieces, rows = pieces_and_rows([source for repo in repos for source in sources(repo)])
    write_bundle(root, pieces, rows=rows, commits={repo: COMMITS[repo] for repo in repos})
    return root


def auth_of(folder: Path, **changed: object) -> AuthSettings:
    key = folder / "public.pem"
    key.write_text(KEYS.public_key)
    given = {
        "tokens": tuple(f"{name}:{digest}" for name, (_, digest) in TOKENS.items()),
        "public_key": key,
        "groups": {"payments": ("ledger-*",), "all": ("*",)},
        "grants": {"clerk": ("group:payments", "billing"), "owner": ("group:all",)},
        "groups_claim": "realm.groups",
        "repositories_claim": "https://example.org/repositories",
        **changed,
    }
    return AuthSettings.model_validate(given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("permissions")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    opened = Engine.open(write(folder / "whole", (*SEEN, *HIDDEN)), ServingSettings())
    opened.telemetry = Telemetry(TelemetrySettings(folder=folder / "telemetry", timeline="file"), opened.served.lease)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def port(engine: Engine, folder: Path) -> Iterator[int]:
    with running(Service(engine, "0", build_auth(auth_of(folder)))) as port:
        yield port


@pytest.fixture(scope="module")
def twin(folder: Path) -> Iterator[int]:
    """A service over a bundle that has the visible repositories alone."""
    opened = Engine.open(write(folder / "twin", SEEN), ServingSettings())
    with running(Service(opened, "0", build_auth(auth_of(folder)))) as port:
        yield port
    opened.close()


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def called(port: int, token: str, tool: str, arguments: dict[str, Any]) -> tuple[int, bytes]:
    body = json.dumps(arguments).encode()
    return request(port, "POST", f"/mcp/tools/{tool}", body, headers(token))


def answer(port: int, token: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return json.loads(called(port, token, tool, arguments)[1])


def jwt(**claims: object) -> str:
    return KEYS.create_token(subject="clerk", additional_claims=claims)


CLERK, OWNER, GUEST = (TOKENS[name][0] for name in ("clerk", "owner", "guest"))
WORDS = st.sampled_from(
    [
        "open",
        "Index.open",
        "Index",
        "use",
        "index",
        "invoice_of",
        "posting",
        "invoice_off",
        "postings_of",
        "quokka_of",
        "quokka",
        "quoka_of",
        "zebrafish_of",
        "zebrafsh",
        "io.index",
        "test_open",
        "open the index",
        "where is the quokka index opened",
        "vault open",
        "ledger open",
        "billing open",
    ]
)
PLACES = st.sampled_from(
    [
        f"{repo}{path}"
        for repo in ("", "billing/", "ledger-eu/", "vault/", "ledger/", "nowhere/", "repo://vault/", "repo://billing/")
        for path in (
            "",
            "io/index.py",
            "io/index.py:2",
            "io/index.py#L2-L3",
            "lib",
            "lib/quokka_store.py",
            "lib/posting_store.py:4",
            "quokka_store.py",
            "index.py:2-3",
            "lib/invoice_store.py:9",
            "nothing.py",
        )
    ]
)
REPOS = st.sampled_from([*SEEN, *HIDDEN, "nowhere"])
GLOBS = st.sampled_from(
    ["**/*.py", "lib", "io/**", "vault/**", "billing/**", "*_store.py", "quokka*", "**", "le*/io/*"]
)
SCOPES = [SetScopeRequest(repos=[repo]) for repo in (*SEEN, *HIDDEN)] + [SetScopeRequest(include=["**/*_store.py"])]
SCOPE_IDS = st.sampled_from(["x", *(Scope.of(scope).id() for scope in SCOPES)])
CALM = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def valid(name: str, schema: dict[str, Any], ids: list[str]) -> st.SearchStrategy[Any]:
    """Values of an argument that may meet something in the bundle."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "array":
        return st.lists(valid(name, schema["items"], ids), max_size=3)
    if schema["type"] == "object":
        inner = schema.get("properties", {})
        return st.fixed_dictionaries({}, optional={each: valid(each, inner[each], ids) for each in inner})
    if schema["type"] == "boolean":
        return st.booleans()
    if schema["type"] in ("integer", "number"):
        return st.integers(0, 12)
    known: dict[str, st.SearchStrategy[str]] = {
        "repos": REPOS, "include": GLOBS, "exclude": GLOBS, "scope_id": SCOPE_IDS, "uri": PLACES, "path": PLACES,
        "pattern": PLACES | WORDS | GLOBS, "ref": st.sampled_from(["", "main", *COMMITS.values()]),
        "id": st.sampled_from(ids) | PLACES, "objectIds": st.sampled_from(ids) | PLACES,
        "lang": st.sampled_from(["python", "go", "pyton"]), "languages": st.sampled_from(["python", "go"]),
        "kinds": st.sampled_from(["function", "method", "class"]), "symbol": WORDS | PLACES,
    }  # fmt: skip
    return known.get(name, WORDS)


def without_echo(raw: bytes, arguments: Any) -> bytes:
    """An answer without what the caller said itself."""
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    if isinstance(arguments, list):
        for each in arguments:
            raw = without_echo(raw, each)
        return raw
    if isinstance(arguments, str) and arguments:
        for text in (arguments, arguments.lower(), arguments.rpartition(".")[2]):
            raw = raw.replace(json.dumps(text, ensure_ascii=False)[1:-1].encode(), b"")
    return raw


def told(raw: bytes) -> Counter[bytes]:
    """How often an answer names what is hidden."""
    return Counter(found.lower() for found in CANARIES.findall(raw))


def shape(tool: str, raw: bytes) -> Any:
    """What has to be equal: everything, but of a ranking what does not depend on frequencies in the whole version."""
    found = json.loads(raw)
    if tool == "healthz":
        return {name: found[name] for name in ("status", "chunks", "bundle")}
    if tool == "describe_index":
        return {name: value for name, value in found.items() if name not in ("age_s", "channels")}
    if tool in RANKED and "error" not in found:
        return None
    return found


@pytest.mark.parametrize("tool", FULL)
def test_row_34_every_tool_answers_as_if_there_were_no_other_repository(
    port: int, twin: int, engine: Engine, tool: str
) -> None:
    ids = [str(one) for one in engine.bundle.directory.chunk_ids.tolist()]
    schema = FULL[tool]["inputSchema"]
    properties, required = schema.get("properties", {}), schema.get("required", [])
    named = {name: valid(name, inner, ids) for name, inner in properties.items()}
    arguments = st.fixed_dictionaries(
        {name: named[name] for name in required},
        optional={name: each for name, each in named.items() if name not in required},
    )

    @CALM
    @given(arguments)
    def check(given: dict[str, Any]) -> None:
        status, raw = called(port, CLERK, tool, given)
        expected_status, expected = called(twin, OWNER, tool, given)
        assert status == expected_status, (raw, expected)
        assert told(raw) == told(expected), raw  # the twin knows no more than the caller said
        assert shape(tool, raw) == shape(tool, expected)

    check()


def test_the_words_of_hidden_repositories_are_there_for_their_owner(port: int) -> None:
    """Else the property above could not fail."""
    for tool, arguments in (
        ("search", {"query": "quokka"}), ("search_code", {"pattern": "quokka"}), ("overview", {}),
        ("go_to_definition", {"symbol": "quokka_of"}), ("find_references", {"symbol": "quokka_of"}),
        ("relations", {"kind": "callers", "target": "quokka_of"}), ("relations", {"kind": "impact", "target": "vault"}),
        ("outline", {"path": "vault/lib"}), ("list_files", {}), ("describe_index", {}), ("healthz", {}),
        ("fetch", {"id": "vault/io/index.py"}), ("explore", {"query": "quokka"}),
    ):  # fmt: skip
        assert CANARIES.search(called(port, OWNER, tool, arguments)[1]), tool
        assert CANARIES.search(without_echo(called(port, CLERK, tool, arguments)[1], arguments)) is None, tool


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        *((tool, {"query": "open", "filters": {"symbols": ["quokka_of"]}}) for tool in ("search", "explore")),
        ("search_code", {"pattern": "open", "filters": {"symbols": ["quokka_of"]}}),
        ("search_code", {"pattern": "open", "filters": {"symbols": ["quoka_of"]}}),
        ("search_code", {"pattern": "open", "filters": {"repos": ["vault"]}}),
        ("search_code", {"pattern": "open", "filters": {"ref": "main"}}),
        ("search_code", {"pattern": "quokka", "mode": "regex"}),
        ("go_to_definition", {"symbol": "quokk_of"}),
        ("go_to_definition", {"symbol": "open", "filters": {"include": ["vault/**"]}}),
        ("go_to_definition", {"uri": "vault/lib/quokka_store.py:4"}),
        ("find_references", {"symbol": "use"}),
        ("relations", {"kind": "callers", "target": "quokk_of"}),
        ("relations", {"kind": "affected_tests", "target": "vault/lib/quokka_store.py"}),
        ("outline", {"path": "vault"}),
        ("outline", {"path": "io/index.py"}),
        ("list_files", {"pattern": "vault/**"}),
        ("set_scope", {"repos": ["vault"]}),
        ("fetch", {"objectIds": ["quokka_store.py", "billing/io/index.py", "io/index.py", "vault/io/index.py"]}),
        ("overview", {"repos": ["vault"]}),
        ("search", {"query": "quokka_off", "channel": "symbol"}),
        ("search", {"query": "vault open", "explain": True, "channel": "symbol"}),
    ],
)
def test_what_is_asked_for_by_name_is_as_good_as_nowhere(
    port: int, twin: int, tool: str, arguments: dict[str, Any]
) -> None:
    assert called(port, CLERK, tool, arguments) == called(twin, OWNER, tool, arguments)


def test_a_query_that_names_a_hidden_repository_ranks_no_other_lower(port: int) -> None:
    asked = {"query": "vault open", "explain": True}
    owner, clerk = (called(port, token, "search", asked)[1] for token in (OWNER, CLERK))
    assert b"other_repository" in owner
    assert b"other_repository" not in clerk


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("query", ["open the index", "Index.open", "quokka", "vault open", "posting_of"])
def test_a_ranking_is_that_of_the_whole_version_with_these_repositories_as_its_filter(
    port: int, query: str, explain: bool
) -> None:
    asked = {"query": query, "explain": explain, "top_k": 20}
    found = answer(port, CLERK, "search", asked)["results"]
    filtered = answer(port, OWNER, "search", {**asked, "filters": {"repos": list(SEEN)}})["results"]
    assert {one["id"] for one in found} == {one["id"] for one in filtered}
    assert all(one["metadata"]["uri"].startswith(("billing/", "ledger-eu/")) for one in found)


def mcp(port: int, token: str, call) -> Any:
    async def run() -> Any:
        async with Client(StreamableHttpTransport(f"http://127.0.0.1:{port}/mcp", headers=headers(token))) as client:
            return await call(client)

    return asyncio.run(run())


def test_a_client_of_the_protocol_sees_its_repositories_in_tools_and_resources(port: int) -> None:
    async def read(client: Client) -> tuple[Any, str, list[str], Any]:
        found = await client.call_tool("search", {"query": "open the index"})
        (content,) = await client.read_resource("repo://billing/io/index.py")
        errors: list[str] = []
        for uri in ("repo://vault/io/index.py", "repo://nowhere/io/index.py"):
            with pytest.raises(Exception) as error:
                await client.read_resource(uri)
            errors.append(str(error.value))
        listed = (await client.list_tools(), await client.list_resources(), await client.list_resource_templates())
        return found, content.text, errors, [[one.model_dump(mode="json") for one in each] for each in listed]

    found, text, errors, listed = mcp(port, CLERK, read)
    assert "invoice" in text and errors[0] == errors[1]
    assert CANARIES.search(found.content[0].text.encode()) is None
    assert CANARIES.search(json.dumps([found.structured_content, found.meta]).encode()) is None
    assert CANARIES.search(json.dumps(listed).encode()) is None


def test_a_connector_of_chatgpt_sees_them_too(port: int, engine: Engine) -> None:
    hidden = next(
        str(one)
        for one, file in zip(engine.bundle.directory.chunk_ids.tolist(), engine.bundle.directory.file_of, strict=True)
        if engine.bundle.directory.repos[file] == "vault"
    )
    for token, seen in ((CLERK, False), (OWNER, True)):
        for tool, arguments in (("search", {"query": "quokka index"}), ("fetch", {"id": hidden})):
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            accepted = {**headers(token), "Accept": "application/json, text/event-stream"}
            raw = request(port, "POST", "/chatgpt/mcp", json.dumps(body).encode(), accepted)[1]
            assert bool(CANARIES.search(without_echo(raw, arguments))) is seen


def test_callers_take_turns_and_none_gets_what_another_was_answered(port: int) -> None:
    asked = {"query": "open the index", "top_k": 20}
    owner, clerk = answer(port, OWNER, "search", asked), answer(port, CLERK, "search", asked)
    for _ in range(3):
        assert answer(port, OWNER, "search", asked)["results"] == owner["results"]
        assert answer(port, CLERK, "search", asked)["results"] == clerk["results"]
        assert answer(port, GUEST, "search", asked)["results"] == []


def test_a_caller_without_a_grant_sees_nothing_once_there_are_groups(port: int) -> None:
    for tool, arguments in (("search", {"query": "open"}), ("search_code", {"pattern": "open"}), ("list_files", {})):
        found = answer(port, GUEST, tool, arguments)
        assert not found.get("results") and not found.get("files")
    described = answer(port, GUEST, "describe_index", {})
    assert (described["repositories"], described["repositories_total"], described["chunks"]) == ([], 0, 0)
    for tool, arguments in (("fetch", {"id": "billing/io/index.py"}), ("outline", {"path": "billing"})):
        assert answer(port, GUEST, tool, arguments)["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("claims", "seen"),
    [
        ({"realm": {"groups": ["payments"]}}, {"ledger-eu"}),
        ({"realm": {"groups": "payments"}}, {"ledger-eu"}),
        ({"realm": {"groups": ["payments", "gone", "others"]}}, {"ledger-eu"}),
        ({"realm": {"groups": ["gone"]}}, set()),
        ({"realm": {"groups": []}}, set()),
        ({"realm": {"groups": [1]}}, set()),
        ({"realm": "payments"}, set()),
        ({"groups": ["payments"]}, set()),
        ({"https://example.org/repositories": ["vault"]}, {"vault"}),
        (
            {"https://example.org/repositories": ["../x", "vau*"], "realm": {"groups": ["payments"]}},
            {"vault", "ledger-eu"},
        ),
        ({"https://example.org/repositories": {"vault": True}}, set()),
        ({"realm": {"groups": ["all"]}}, {*SEEN, *HIDDEN}),
        ({"client_id": "owner"}, set()),
        ({"azp": "owner", "sub": "owner"}, set()),
    ],
)  # fmt: skip
def test_a_jwt_sees_what_its_claims_say_and_not_what_a_token_of_its_name_may(port: int, claims, seen) -> None:
    described = answer(port, jwt(**claims), "describe_index", {})
    assert {one["name"] for one in described["repositories"]} == seen


def test_a_group_that_is_taken_from_the_settings_grants_nothing_any_more(engine: Engine, folder: Path) -> None:
    token = jwt(realm={"groups": ["payments"]})
    for groups, seen in (({"payments": ("billing",)}, {"billing"}), ({"other": ("billing",)}, set())):
        changed = auth_of(folder, groups=groups, grants={})
        with running(Service(engine, "0", build_auth(changed))) as port:
            assert {one["name"] for one in answer(port, token, "describe_index", {})["repositories"]} == seen


@pytest.mark.parametrize("without", ["", "everything", "nothing"])
def test_who_has_no_grant_sees_what_the_setting_says(engine: Engine, folder: Path, without: str) -> None:
    plain = {"groups": {}, "grants": {}, "groups_claim": "groups", "repositories_claim": ""}
    for changed, everything in ((plain, without != "nothing"), ({}, without == "everything")):
        with running(Service(engine, "0", build_auth(auth_of(folder, without_grant=without, **changed)))) as port:
            found = answer(port, GUEST, "describe_index", {})["repositories"]
            assert len(found) == (4 if everything else 0)


def test_pages_tell_a_restricted_caller_of_its_repositories_alone(port: int) -> None:
    health = json.loads(request(port, "GET", "/healthz", headers=headers(CLERK))[1])
    assert health["bundle"]["commits"] == {repo: COMMITS[repo] for repo in SEEN}
    assert CANARIES.search(json.dumps(health).encode()) is None
    assert set(json.loads(request(port, "GET", "/healthz")[1])) == {"status"}
    assert request(port, "GET", "/metrics", headers=headers(CLERK))[0] == 404
    assert request(port, "GET", "/metrics", headers=headers(OWNER))[0] == 200


@pytest.mark.parametrize("path", ["/", "/file", "/folder", "/symbol", "/index"])
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    given=st.fixed_dictionaries(
        {}, optional={"q": WORDS, "name": WORDS, "path": PLACES | GLOBS, "at": PLACES, "repo": REPOS}
    )
)
def test_row_36_the_page_shows_what_its_reader_may_see(port: int, path: str, given: dict[str, str]) -> None:
    asked = f"{path}?{urlencode(given)}"
    status, page = request(port, "GET", asked, headers=with_password(CLERK))
    assert status in (200, 400, 404)
    parts = {part for value in given.values() for part in value.split("/")}
    for echoed in sorted({*given.values(), *parts} - {""}, key=len, reverse=True):  # it came from the reader
        page = page.replace(html.escape(echoed).encode(), b"").replace(quote_plus(echoed).encode(), b"")
    assert not CANARIES.search(page)


def test_row_36_a_password_is_a_token_at_the_page_alone(port: int) -> None:
    assert request(port, "GET", "/?q=open")[0] == 401
    assert request(port, "GET", "/?q=open", headers=with_password("nothing"))[0] == 401
    assert request(port, "GET", "/?q=open", headers={"Authorization": "Basic ???"})[0] == 401
    status, page = request(port, "GET", "/?q=quokka", headers=with_password(OWNER))
    assert status == 200 and b"vault/lib/quokka_store.py" in page
    body = json.dumps({"query": "open"}).encode()
    assert request(port, "POST", "/mcp/tools/search", body, with_password(OWNER))[0] == 401


def with_password(token: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'me:{token}'.encode()).decode()}"}


def test_the_timeline_says_who_asked_within_which_scope_and_not_for_what(
    engine: Engine, port: int, folder: Path
) -> None:
    answer(port, CLERK, "search", {"query": "a question of the clerk"})
    answer(port, OWNER, "search", {"query": "a question of the owner"})
    file = folder / "telemetry" / TIMELINE
    seen: dict[str, dict[str, Any]] = {}
    deadline = time.monotonic() + 10
    while len(seen) < 2 and time.monotonic() < deadline:
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        starts = [line for line in lines if line["event"] == "start"]
        seen = {name: line["sees"] for line in starts for name in ("clerk", "owner") if f'"{name}"' in line["client"]}
        time.sleep(0.05)
    assert (seen["clerk"]["groups"], seen["clerk"]["whole"], seen["owner"]["whole"]) == (["payments"], False, True)
    assert seen["clerk"]["digest"] != seen["owner"]["digest"]
    assert "question" not in file.read_text()
