"""Messages of the tools name options and commands where the command line prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import Run


@pytest.fixture
def indexed(run: Run, tmp_path: Path) -> Run:
    """A folder with one indexed file."""
    (tmp_path / "cwd" / "tea.py").write_text("def pour_tea(cup):\n    return cup\n")
    assert run("index").returncode == 0
    return run


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("search", "tea", "--channel", "smell"), 2, "error: --channel: must be one of"),
        (("search", "tea", "--kind", "banana"), 2, "error: --kind: must be one of"),
        (("grep", "tea", "--mode", "fuzzy"), 2, "error: --mode: must be one of"),
        (("search", "tea", "--limit", "99"), 0, "note: --limit clamped to 50"),
        (("files", "nothing/**"), 1, "`codequarry overview` tells what is indexed"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_options_and_commands_are_named(indexed: Run, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = indexed(*arguments)
    assert done.returncode == code and said in done.stderr
    assert not [word for word in ("filters.", "top_k", "schema", "describe_index") if word in done.stderr]
