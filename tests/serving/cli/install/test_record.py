"""Install and undo over whole files: identical bytes, once is twice, and nothing of others is lost."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.cli.install.json_text import UnreadableConfigError
from codequarry.serving.cli.install.record import apply_change, plan_install, plan_undo, written_names
from codequarry.serving.cli.install.targets import BEGIN, END, ConfigTarget, find_value
from tests.serving.cli.install.config_texts import jsonc_texts, toml_texts

ENTRY = {"command": "/opt/c q", "args": ["serve", "--stdio"]}
OTHER = {"command": "/opt/other", "args": ["serve"]}


def json_target(file: Path, value: Any = ENTRY, *keys: str) -> ConfigTarget:
    return ConfigTarget(
        file, "json", value, keys or ("mcpServers", "codequarry"), "cursor codequarry", comments=True, commas=True
    )


def install(target: ConfigTarget, subject: str = "/srv/b") -> None:
    apply_change(plan_install(target, subject))


def undo(target: ConfigTarget) -> bool:
    change = plan_undo(target)
    if change is not None:
        apply_change(change)
    return change is not None


def round_trip(target: ConfigTarget, text: str | None) -> None:
    """Install twice and undo: the bytes are those of before."""
    if text is not None:
        target.file.write_bytes(text.encode())
    try:
        install(target)
    except InvalidArgumentError:
        assert text is not None
        assert target.file.read_bytes() == text.encode()
        return
    once = target.file.read_bytes()
    install(target)
    assert target.file.read_bytes() == once
    assert find_value(target, once.decode()) == target.value
    assert undo(target)
    assert target.file.exists() == (text is not None)
    assert text is None or target.file.read_bytes() == text.encode()
    assert written_names(target.file) == []
    assert not undo(target)


@given(st.none() | st.sampled_from(["", "\n", "// only\n"]) | jsonc_texts(), st.sampled_from(["mcpServers", "a"]))
def test_json_is_as_it_was_after_undo(text: str | None, key: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / ("new/mcp.json" if text is None else "mcp.json")
        round_trip(json_target(file, ENTRY, key, "codequarry"), text)
        assert list(Path(folder).iterdir()) == ([] if text is None else [file])


@given(st.none() | toml_texts())
def test_toml_is_as_it_was_after_undo(text: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        keys = ("mcp_servers", "codequarry")
        round_trip(ConfigTarget(Path(folder) / "config.toml", "toml", ENTRY, keys, "codex codequarry"), text)


@given(st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])))
def test_a_guide_is_as_it_was_after_undo(text: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        block = f"{BEGIN}\nSearch.\n{END}\n"
        target = ConfigTarget(Path(folder) / "AGENTS.md", "block", block, name="block")
        if text is not None:
            target.file.write_bytes(text.encode())
        install(target)
        written = target.file.read_bytes()
        install(target)
        assert target.file.read_bytes() == written
        assert undo(target)
        assert target.file.exists() == (text is not None)
        assert text is None or target.file.read_bytes() == text.encode()


@given(jsonc_texts(comments=False))
def test_what_others_write_after_it_stays(text: str) -> None:
    """The client writes its file anew between install and undo."""
    with tempfile.TemporaryDirectory() as folder:
        target = json_target(Path(folder) / "mcp.json")
        target.file.write_bytes(text.encode())
        try:
            install(target)
        except InvalidArgumentError:
            return
        value = json.loads(target.file.read_bytes().decode().removeprefix("\ufeff"))
        value["later"] = [1]
        target.file.write_text(json.dumps(value, indent="\t"))
        assert undo(target)
        before = json.loads(text.removeprefix("\ufeff"))
        assert json.loads(target.file.read_text()) == {**before, "later": [1]}


def test_an_update_is_undone_to_what_was_before_the_first(tmp_path: Path) -> None:
    target = json_target(tmp_path / "mcp.json")
    target.file.write_text('{"mcpServers":{}}')
    install(target)
    install(json_target(target.file, OTHER))
    assert json.loads(target.file.read_text()) == {"mcpServers": {"codequarry": OTHER}}
    assert undo(target)
    assert target.file.read_text() == '{"mcpServers":{}}'


def test_an_entry_that_was_changed_since_is_left_alone(tmp_path: Path) -> None:
    target = json_target(tmp_path / "mcp.json")
    install(target)
    changed = json.dumps({"mcpServers": {"codequarry": {**ENTRY, "env": {"A": "b"}}}})
    target.file.write_text(changed)
    for act in (lambda: undo(target), lambda: install(json_target(target.file, OTHER))):
        with pytest.raises(InvalidArgumentError) as refused:
            act()
        assert refused.value.code == "INVALID_ARGUMENT"
        assert target.file.read_text() == changed


def test_a_token_in_its_place_is_no_change(tmp_path: Path) -> None:
    target = json_target(tmp_path / "mcp.json", {"headers": {"Authorization": "Bearer YOUR-TOKEN"}})
    target.file.write_text('{"x": 1}')
    install(target)
    target.file.write_text(target.file.read_text().replace("YOUR-TOKEN", "s3cret"))
    assert undo(target)
    assert json.loads(target.file.read_text()) == {"x": 1}


def test_an_entry_for_another_index_is_not_overwritten(tmp_path: Path) -> None:
    target = json_target(tmp_path / "mcp.json")
    install(target)
    with pytest.raises(InvalidArgumentError):
        install(json_target(target.file, OTHER), "/srv/another")
    assert json.loads(target.file.read_text())["mcpServers"]["codequarry"] == ENTRY


def test_an_entry_that_somebody_else_wrote_is_not_overwritten(tmp_path: Path) -> None:
    target = json_target(tmp_path / "mcp.json")
    text = json.dumps({"mcpServers": {"codequarry": OTHER}})
    target.file.write_text(text)
    with pytest.raises(InvalidArgumentError):
        install(target)
    with pytest.raises(InvalidArgumentError):
        undo(target)
    assert target.file.read_text() == text


@pytest.mark.parametrize("text", ['{"mcpServers": ', "[]", '{"mcpServers": 1}', '{"mcpServers": {}, "mcpServers": {}}'])
def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, text: str) -> None:
    target = json_target(tmp_path / "mcp.json")
    target.file.write_text(text)
    with pytest.raises(UnreadableConfigError):
        install(target)
    assert target.file.read_text() == text


def test_toml_that_cannot_have_another_table_is_refused(tmp_path: Path) -> None:
    target = ConfigTarget(tmp_path / "c.toml", "toml", ENTRY, ("mcp_servers", "codequarry"), "codex codequarry")
    target.file.write_text('mcp_servers = {a = {command = "b"}}\n')
    with pytest.raises(UnreadableConfigError):
        install(target)
    assert target.file.read_text() == 'mcp_servers = {a = {command = "b"}}\n'


def test_a_block_is_replaced_in_place_and_broken_markers_are_refused(tmp_path: Path) -> None:
    target = ConfigTarget(tmp_path / "AGENTS.md", "block", f"{BEGIN}\nnew\n{END}\n", name="block")
    target.file.write_text(f"# A\n\n{BEGIN}\nold, and edited\n{END}\n\n# B\n")
    install(target)
    assert target.file.read_text() == f"# A\n\n{BEGIN}\nnew\n{END}\n\n# B\n"
    assert undo(target)
    assert target.file.read_text() == "# A\n\n# B\n"
    target.file.write_text(f"{END}\n{BEGIN}\n")
    with pytest.raises(UnreadableConfigError):
        install(target)
