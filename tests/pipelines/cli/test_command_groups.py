"""`codequarry --help` and `--version`, as a person reads them."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from codequarry.pipelines.cli.command_groups import GROUPS, CommandGroups
from codequarry.pipelines.cli.root import build_app

APP = build_app()


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_once_in_its_group_within_the_terminal(columns: int, flag: str) -> None:
    done = CliRunner().invoke(APP, [flag], env={"COLUMNS": str(columns)}, terminal_width=columns)
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= columns
    sections = re.findall(r"^(\w[\w ]+):$", done.output, re.MULTILINE)
    assert sections == ["Options", *GROUPS], "no command is left over"
    listed = re.findall(r"^  (\w+) +[A-Z]", done.output, re.MULTILINE)
    group = get_command(APP)
    assert isinstance(group, CommandGroups)
    assert sorted(listed) == sorted(group.commands)


def test_the_version_of_the_program_is_told() -> None:
    done = CliRunner().invoke(APP, ["--version"])
    assert done.exit_code == 0
    assert done.output.startswith(f"codequarry {version('codequarry')} (bundle format ")
