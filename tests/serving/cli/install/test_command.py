"""`codequarry install` as people run it, in a home folder of the test's."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from codequarry.serving.cli.install.clients import CLIENTS
from codequarry.serving.cli.install.kit import AGENTS_BLOCK, SKILL, gemini_files, plugin_files
from tests.serving.cli.install.adoption_schemas import check_format


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / ".state"))
    for variable in ("CODEX_HOME", "COPILOT_HOME", "CLAUDE_CONFIG_DIR", "CLINE_MCP_SETTINGS_PATH"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run) -> Path:
    folder = tmp_path / "My App"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def read(client: str, file: Path) -> dict[str, object]:
    text = file.read_text()
    return tomllib.loads(text) if CLIENTS[client].language == "toml" else json.loads(text)


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {
        ".state/codequarry/installed.json"
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_gets_its_file_and_loses_it_again(run, home: Path, work: Path, client: str) -> None:
    assert run("install", client)[0] == 0
    file = CLIENTS[client].user_file()
    assert file.is_relative_to(home)
    value = read(client, file)
    check_format(client, value)
    for key in CLIENTS[client].keys:
        value = value[key]  # type: ignore[assignment]
    assert list(value) == ["codequarry-my-app"]
    assert str(work / ".codequarry" / "bundles") in json.dumps(value)
    assert run("install", client, "--undo")[0] == 0
    assert files_below(home) == set()


@pytest.mark.parametrize("client", [key for key in CLIENTS if CLIENTS[key].project_file])
def test_each_project_gets_its_file_in_its_folder(run, home: Path, work: Path, client: str) -> None:
    assert run("install", client, "--project")[0] == 0
    assert files_below(work) == {CLIENTS[client].project_file}
    check_format(client, read(client, work / CLIENTS[client].project_file))
    assert run("install", client, "--project", "--undo")[0] == 0
    assert files_below(work) == files_below(home) == set()


def test_a_project_file_of_a_client_that_has_none_is_refused(run, home: Path, work: Path) -> None:
    assert run("install", "windsurf", "--project")[0] == 2


def test_a_link_out_of_the_project_is_refused(run, home: Path, work: Path) -> None:
    (home / ".cursor").mkdir()
    (work / ".cursor").symlink_to(home / ".cursor")
    assert run("install", "cursor", "--project")[0] == 2
    assert files_below(home) == set()


def test_all_means_the_clients_that_are_found(run, home: Path, work: Path) -> None:
    assert run("install", "--all")[0] == 1
    (home / ".cursor").mkdir()
    (home / ".codex").mkdir()
    out = run("install")[1]
    assert [line.split()[0] for line in out.splitlines() if " yes " in line] == ["cursor", "codex"]
    assert files_below(home) == set()
    assert run("install", "--all")[0] == 0
    assert files_below(home) == {".cursor/mcp.json", ".codex/config.toml"}
    assert run("install")[1].count("codequarry-my-app") == 2
    assert run("install", "--all", "--undo")[0] == 0
    assert files_below(home) == set()


def test_a_dry_run_shows_the_change_and_makes_none(run, home: Path, work: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {}\n}\n')
    code, out, _ = run("install", "cursor", "--dry-run")
    assert code == 0
    assert '+    "codequarry-my-app": {' in out
    assert file.read_text() == '{\n  "mcpServers": {}\n}\n'
    run("install", "cursor")
    code, out, _ = run("install", "cursor", "--undo", "--dry-run")
    assert '-    "codequarry-my-app": {' in out
    assert "codequarry-my-app" in file.read_text()


def test_two_projects_stand_beside_each_other(run, home: Path, tmp_path: Path, monkeypatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert run("install", "cursor")[0] == 0
    (tmp_path / "deeper" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deeper" / "one")
    assert run("install", "cursor")[0] == 2
    assert run("install", "cursor", "--name", "other")[0] == 0
    servers = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]
    assert list(servers) == ["codequarry-one", "codequarry-two", "other"]
    assert run("install", "cursor", "--undo")[0] == 2, "the entry of the first project is not this one's"


def test_a_file_that_cannot_be_read_is_left_and_the_others_are_written(run, home: Path, work: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".gemini").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{oops")
    code, _, err = run("install", "--all")
    assert code == 2
    assert str(home / ".cursor" / "mcp.json") in err
    assert (home / ".cursor" / "mcp.json").read_text() == "{oops"
    assert (home / ".gemini" / "settings.json").exists()


def test_names_clients_and_options_are_checked(run, home: Path, work: Path) -> None:
    for given in (["emacs"], ["cursor", "--name", "a b"], ["--all", "cursor"], ["--print"], ["--to", "x"]):
        assert run("install", *given)[0] == 2, given
    assert files_below(home) == files_below(work) == set()


def test_a_token_is_read_from_the_environment_or_has_its_place(run, home: Path, work: Path, monkeypatch) -> None:
    monkeypatch.setenv("CODEQUARRY__AUTH__TOKENS", json.dumps(["alice:" + "0" * 64]))
    code, out, _ = run("install", "codex", "zed", "--url", "https://c.example.org")
    assert code == 0
    assert "CODEQUARRY_TOKEN" in out
    assert "YOUR-TOKEN" in out
    assert tomllib.loads((home / ".codex" / "config.toml").read_text())["mcp_servers"]["codequarry"] == {
        "url": "https://c.example.org/mcp",
        "bearer_token_env_var": "CODEQUARRY_TOKEN",
    }


def test_the_kit_is_written_and_taken_away(run, home: Path, work: Path, tmp_path: Path) -> None:
    (work / "CLAUDE.md").write_text("# Mine\n")
    folders = ("--plugin", tmp_path / "plugin", "--gemini-extension", tmp_path / "extension")
    options = ("--skill", "--agents-md", *folders)
    assert run("install", *options)[0] == 0
    assert (home / ".claude" / "skills" / "codequarry" / "SKILL.md").read_text() == SKILL
    assert (work / "CLAUDE.md").read_text() == f"# Mine\n\n{AGENTS_BLOCK}"
    assert files_below(tmp_path / "plugin") == set(plugin_files())
    assert files_below(tmp_path / "extension") == set(gemini_files())
    assert run("install", *options)[0] == 0
    assert (work / "CLAUDE.md").read_text() == f"# Mine\n\n{AGENTS_BLOCK}"
    assert run("install", *options, "--undo")[0] == 0
    assert files_below(home) == set()
    assert not (tmp_path / "plugin").exists()
    assert (work / "CLAUDE.md").read_text() == "# Mine\n"


def test_a_skill_that_somebody_changed_is_not_overwritten(run, home: Path, work: Path) -> None:
    assert run("install", "--skill", "--to", work)[0] == 0
    file = work / "codequarry" / "SKILL.md"
    file.write_text("mine")
    assert run("install", "--skill", "--to", work)[0] == 2
    assert run("install", "--skill", "--to", work, "--undo")[0] == 2
    assert file.read_text() == "mine"
