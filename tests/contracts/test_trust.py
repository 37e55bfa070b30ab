"""Every command reads settings through the one function that believes no stranger's file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from codequarry.pipelines.cli.root import build_app
from codequarry.schemas.errors import SettingsError, UntrustedError
from codequarry.schemas.settings.load import SETTINGS_FILE

ARGUMENTS = {"client": "cursor", "before": "a", "after": "b", "question": "x", "kind": "callers"}
OPTIONS = {("serve",): ["--port", "0"]}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that takes --settings, by its words."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from leaves(inner, (*path, name))
    elif any("--settings" in parameter.opts for parameter in command.params):
        yield path, command


LEAVES = dict(leaves(typer.main.get_command(build_app())))


def arguments(path: tuple[str, ...]) -> list[str]:
    required = [each for each in LEAVES[path].params if each.required]
    given = [value for each in required for value in _values(each)]
    return [*OPTIONS.get(path, []), *given]


def _values(parameter: Any) -> list[str]:
    value = ARGUMENTS.get(parameter.name or "", "1")
    return [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]


def test_the_commands_that_read_settings_are_known() -> None:
    names = {" ".join(path) for path in LEAVES}
    assert {"index", "search", "serve", "prune", "rollback", "doctor", "store gc", "export", "import"} <= names
    assert {"evaluate", "census", "sql", "versions", "verify", "settings", "install"} <= names


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_no_command_believes_a_settings_file_that_merely_lies_there(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / SETTINGS_FILE).write_text('[embedding]\nmodel = "m"\nendpoint = "http://127.0.0.1:9/v1"\n')
    with pytest.raises(UntrustedError):
        typer.main.get_command(build_app())([*path, *arguments(path)], standalone_mode=False)
    (tmp_path / SETTINGS_FILE).unlink()
    (tmp_path / SETTINGS_FILE).mkdir()
    with pytest.raises(SettingsError):
        typer.main.get_command(build_app())([*path, *arguments(path)], standalone_mode=False)
