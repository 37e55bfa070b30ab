"""Row 14: secrets seeded in a repository are in no answer, no file of the bundle and nothing that runs keep."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fastmcp import Client

from codequarry.pipelines.adapt.tuning import adapted, histories
from codequarry.pipelines.secrets.redaction import open_redactor
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import from_json
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.server.mcp import build_server
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.repositories import commit
from tests.pipelines.scip.scip_writer import document, information, metadata, occurrence
from tests.pipelines.secrets.canaries import GITHUB, LINES, PRIVATE_KEY, VALUES

APP = '"""Client of the billing service."""\n\n' + "".join(
    f"\ndef opens_{kind.replace('-', '_')}():\n    {line}\n    return connect({line.partition(' ')[0].rstrip(':')!r})\n"
    for kind, line in LINES.items()
    if "=" in line
)
NOTES = f"# Deployment\n\nThe key of the billing service:\n\n{PRIVATE_KEY}\n\nThe bot: {LINES['slack-bot-token']}\n"
FILES = {"src/billing.py": APP, "docs/deploy.md": NOTES, "src/plain.py": "def connect(what):\n    return what\n"}
TEXTS = [text.encode() for value in VALUES for text in (value, value.lower())]
DIGESTS = [
    form
    for text in (*VALUES, *FILES.values())
    for digest in (hashlib.sha256(text.encode()).digest(),)
    if text != FILES["src/plain.py"]
    for form in (digest, digest.hex().encode())
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "billing"
    commit(folder, {"src/plain.py": FILES["src/plain.py"]})
    commit(folder, FILES, f"billing: open the service with {GITHUB}")
    return folder


def held_bytes(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder, and of tables the values too, which the file holds compressed."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.name, file.read_bytes()
            if file.suffix == ".parquet":
                yield file.name, repr(pq.read_table(file).to_pydict()).encode()


def secrets_of(root: Path) -> dict[str, int] | None:
    """What the manifest of CURRENT says."""
    bundles = BundleRoot(root)
    return from_json(bundles.version(bundles.read_current().version).manifest.read_bytes()).sources[0].secrets


def leaks(data: bytes) -> list[bytes]:
    return [text for text in (*TEXTS, *DIGESTS) if text in data]


def test_row_14_secrets_are_in_no_answer_and_no_file(
    repository: Path, tmp_path: Path, shared_store: Path, run: Run
) -> None:
    named, symbol = tmp_path / "index.scip", "x go lib 1 `billing`/opens()."
    said = information(symbol, [f"opens with {GITHUB}"], signature=f'const token: "{GITHUB}"')
    named.write_bytes(metadata() + document("src/plain.py", occurrence(symbol, [0, 4, 11], 1), symbols=[said]))
    root = tmp_path / "bundles"
    done = run("index", repository, "--root", root, "--scip", named, "--verbose")
    assert done.returncode == 0, done.stderr
    kinds = {**{kind: 1 for kind, line in LINES.items() if "=" in line}, "private-key": 1, "slack-bot-token": 1}
    line = APP.split("\n").index(f"    {LINES['github-pat']}") + 1
    assert f"billing/src/billing.py:{line} github-pat" in done.stderr
    assert "8 replaced by asterisks" in " ".join(done.stderr.split())

    assert secrets_of(root) == kinds
    assert run("export", tmp_path / "bundle.tar", "--root", root).returncode == 0
    work = tmp_path / "cwd/.codequarry/work"
    assert work.is_dir()
    for place in (root, work, shared_store / "secrets", shared_store / "syntax"):
        for name, data in held_bytes(place):
            assert not leaks(data), name
    assert not leaks((tmp_path / "bundle.tar").read_bytes())
    assert not leaks(f"{done.stdout}{done.stderr}".encode())

    answers = asyncio.run(every_tool(root))
    assert answers["describe_index"]["repositories"][0]["secrets"] == kinds
    assert answers["describe_index"]["repositories"][0]["secrets_looked_for"] is True
    assert "*" * 40 in json.dumps(answers["fetch"]) and "PRIVATE KEY-----" in json.dumps(answers["fetch"])
    assert not answers["search_code"]["results"]
    for tool, answer in answers.items():
        assert not leaks(json.dumps(answer, ensure_ascii=False).encode()), tool


def test_row_27_tokens_of_letters_and_files_of_keys_are_in_no_answer(
    tmp_path: Path, shared_store: Path, run: Run
) -> None:
    """Tokens and passwords of letters alone, and files that hold keys by their name in whatever case."""
    generator = random.Random("row 27")
    token = "hf_" + "".join(generator.choices(string.ascii_letters, k=34))
    password = "".join(generator.choices(string.ascii_letters, k=16))
    other = "".join(generator.choices(string.ascii_letters, k=20))
    code = (
        f'from huggingface_hub import login\n\n\ndef connect():\n    login(token="{token}")\n'
        f'    return open_database("postgresql://admin:{password}@db.internal:5432/app")\n'
    )
    by_name = (
        "app/.ENV",
        "prod.env",
        ".envrc",
        ".pgpass",
        ".htpasswd",
        "prod.tfvars",
        "kubeconfig",
        ".docker/config.json",
    )
    folder = tmp_path / "service"
    commit(folder, {"src/database.py": code, **dict.fromkeys(by_name, f"login = {other}\n")})
    root = tmp_path / "bundles"
    done = run("index", folder, "--root", root)
    assert done.returncode == 0, done.stderr
    assert secrets_of(root) == {"generic-credential-uri": 1, "huggingface-access-token": 1}
    census = run("census", folder)
    assert census.returncode == 0 and "secret_file" in census.stdout

    values = [value for text in (token, password, other) for value in (text.encode(), text.lower().encode())]
    for place in (root, tmp_path / "cwd/.codequarry/work", shared_store / "secrets", shared_store / "syntax"):
        for name, data in held_bytes(place):
            assert not [value for value in values if value in data], name
    for text in (token, token[:12], password, password[:8], other):
        answer = run("grep", text, "--root", root)
        assert "database.py" not in answer.stdout and text not in answer.stdout
    found = run("search", "connect to the database with the token", "--root", root)
    assert "database.py" in found.stdout
    answers = asyncio.run(every_tool(root))
    assert "*" * len(token) in json.dumps(answers["fetch"])
    for tool, answer in answers.items():
        assert not [value for value in values if value in json.dumps(answer).encode()], tool


async def every_tool(root: Path) -> dict[str, Any]:
    engine = Engine.open(root, ServingSettings())
    try:
        async with Client(build_server(engine, version="0")) as client:
            answers: dict[str, Any] = {}

            async def ask(tool: str, key: str = "", **arguments: Any) -> dict[str, Any]:
                answer = await client.call_tool_mcp(tool, arguments)
                assert not answer.is_error, answer.structured_content
                answers[key or tool] = answer.structured_content
                answers[f"text of {key or tool}"] = answer.content[0].text
                return answer.structured_content

            found = await ask("search", query="billing service key token", top_k=50)
            for channel in ("bm25", "faiss", "symbol"):
                await ask("search", f"search {channel}", query="opens billing", channel=channel)
            await ask("fetch", objectIds=[one["id"] for one in found["results"]], max_tokens=16000)
            await ask("semantic_search_pro", query="connect to the billing service")
            await ask("search_code", pattern=GITHUB)
            await ask("search_code", "search_code near", pattern="token")
            await ask("go_to_definition", symbol="opens")
            await ask("find_references", symbol="connect")
            paths = [f"{one['metadata']['uri']}" for one in found["results"]]
            await ask("relations", kind="impact", target=paths[0])
            await ask("fetch", "fetch of files", objectIds=paths, max_tokens=16000)
            await ask("outline", path="")
            await ask("list_files")
            await ask("overview")
            await ask("explore", query="connect to the billing service", max_tokens=16000)
            for tool in ("describe_index", "healthz", "set_scope"):
                await ask(tool)
            assert {one.name for one in await client.list_tools()} <= {*answers, "get_scope"}
            return answers
    finally:
        engine.close()


def test_without_a_scan_the_index_says_so(repository: Path, tmp_path: Path, run: Run, monkeypatch) -> None:
    monkeypatch.setenv("CODEQUARRY__SECRETS__SCAN", "false")
    root = tmp_path / "bundles"
    done = run("index", repository, "--root", root, "--verbose")
    assert "not looked for: secrets.scan is false" in " ".join(done.stderr.split())
    assert secrets_of(root) is None
    monkeypatch.delenv("CODEQUARRY__SECRETS__SCAN")
    again = run("index", repository, "--root", root)
    assert "published" in again.stderr and "replaced by asterisks" in again.stderr
    assert "unchanged" in run("index", repository, "--root", root).stderr


def test_history_is_redacted_before_an_encoder_learns_from_it(
    repository: Path, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"src/billing.py": APP.replace("opens_", "reads_")}, f"billing: read, not open, {GITHUB}")
    settings = make_settings(repository)
    for one in settings.sources.repositories:
        snapshot_repository(one.model_copy(update={"name": "billing"}), settings)
    learned: list[object] = []

    def learn(files: Any, base: Path, target: Path, *, changes: Any, **_: object) -> None:
        learned.extend([*files, *changes])

    monkeypatch.setattr("codequarry.pipelines.adapt.tuning.adapt", learn)
    adapted(histories(settings), settings, tmp_path / "encoder")
    assert "billing: read, not open, ****" in str(learned) and "reads_" in str(learned)
    assert not leaks(str(learned).encode())
    with open_redactor(settings) as redactor:
        assert GITHUB not in redactor.text(GITHUB)
