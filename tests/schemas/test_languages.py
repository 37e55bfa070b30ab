"""Languages by the names people use: one table for the command line, filters and scopes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.languages import (
    BY_NAME,
    LANGUAGES,
    canonical_languages,
    language_named,
    language_of,
    nearest_languages,
)
from codequarry.schemas.wire.scope import SetScopeRequest

USUAL = {
    "py": "python", ".py": "python", "python3": "python", "rs": "rust", "ts": "typescript", ".mts": "typescript",
    "js": "javascript", "jsx": "javascript", "node": "javascript", "c++": "cpp", "C++": "cpp", "cc": "cpp",
    "hpp": "cpp", "h": "c", "c#": "csharp", "C#": "csharp", "cs": "csharp", "golang": "go", "sh": "bash",
    "shell": "bash", "zsh": "bash", "rb": "ruby", "kt": "kotlin", "hs": "haskell", "ex": "elixir",
    "md": "markdown", "yml": "yaml",
    "postgres": "sql", "docker": "dockerfile", "Makefile": "make", "makefile": "make", "proto": "protobuf", "R": "r",
}  # fmt: skip


@pytest.mark.parametrize("name", USUAL)
def test_usual_names_and_suffixes(name: str) -> None:
    assert language_named(name) == USUAL[name]


def test_every_language_has_its_name_and_its_suffixes() -> None:
    for language in LANGUAGES:
        assert language_named(language.name) == language_named(language.name.upper()) == language.name
        for suffix in language.suffixes:
            assert language_named(suffix) == language_of(f"file{suffix}")


def test_no_alias_is_of_two_languages() -> None:
    aliases = [alias for language in LANGUAGES for alias in language.aliases]
    assert len(set(aliases)) == len(aliases)
    assert all(alias == alias.lower() for alias in aliases)
    assert not set(aliases) & BY_NAME.keys()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("pyton", "python"),
        ("ypthon", "python"),
        ("typscript", "typescript"),
        ("tyepscript", "typescript"),
        ("c-sharp!", "csharp"),
        ("shel", "bash"),
        ("golan", "go"),
    ],
)
def test_an_unknown_name_is_told_its_nearest_by_edits(name: str, nearest: str) -> None:
    assert nearest_languages(name)[0] == nearest


@given(st.text(max_size=80))
def test_any_name_has_a_nearest_language(name: str) -> None:
    assert 1 <= len(nearest_languages(name)) <= 3
    assert set(nearest_languages(name)) <= BY_NAME.keys()


def test_a_scope_takes_the_same_names() -> None:
    assert SetScopeRequest(languages=["ts", "c#"]).languages == ["typescript", "csharp"]
    assert canonical_languages(["py", "nonsense"]) == ["python", "nonsense"]
