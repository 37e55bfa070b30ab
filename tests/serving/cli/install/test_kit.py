"""The texts for agents: their form, their length, and the copies in the repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from codequarry.serving.cli.install.kit import (
    AGENTS_BLOCK,
    REGISTRY_MARK,
    REGISTRY_NAME,
    SKILL,
    gemini_files,
    plugin_files,
    registry_entry,
)
from codequarry.serving.server.mcp import listed_tools
from tests.contracts.pages.adoption_kit import files
from tests.serving.cli.install.adoption_schemas import check_format

PROJECT = Path(__file__).resolve().parents[4]


def test_the_skill_is_short_and_has_its_front_matter() -> None:
    assert len(SKILL.splitlines()) <= 60
    _, front, body = SKILL.split("---\n", 2)
    check_format("skill", yaml.safe_load(front))
    assert [line for line in body.splitlines() if line.startswith("## ")] == [
        "## Search first",
        "## grep or reading is better",
        "## Commits and staleness",
        "## When to stop",
    ]
    assert "never use grep" not in SKILL.lower()
    assert max(map(len, body.splitlines())) <= 120


@pytest.mark.parametrize("text", [SKILL, AGENTS_BLOCK])
def test_the_tools_that_texts_name_are_there(text: str) -> None:
    tools = {tool["name"] for tool in listed_tools()}
    assert set(re.findall(r"`([a-z]+(?:_[a-z]+)+|search|fetch)`", text)) <= tools


def test_the_plugin_and_the_extension_have_the_required_fields() -> None:
    plugin = plugin_files()
    check_format("plugin", json.loads(plugin[".claude-plugin/plugin.json"]))
    check_format("claude-code", json.loads(plugin[".mcp.json"]))
    assert plugin["skills/codequarry/SKILL.md"] == SKILL
    extension = gemini_files()
    manifest = json.loads(extension["gemini-extension.json"])
    check_format("gemini-extension", manifest)
    assert extension[manifest["contextFileName"]]


def test_the_registry_entry_has_the_required_fields_and_its_mark_in_the_readme() -> None:
    entry = json.loads(registry_entry())
    check_format("registry", entry)
    assert entry["name"] == REGISTRY_NAME
    assert REGISTRY_MARK in (PROJECT / "README.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", files())
def test_the_copies_in_the_repository_are_the_ones_that_are_made(path: str) -> None:
    assert (PROJECT / path).read_text(encoding="utf-8") == files()[path], (
        "run: python -m tests.contracts.pages.adoption_kit"
    )
