"""Edits of TOML: a table behind the others, and out again."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.cli.install.toml_text import put_table, read_value, table_text, take_table
from tests.serving.cli.install.config_texts import toml_texts

PATH = ("mcp_servers", "codequarry-app")
TABLE = {"command": "/opt/c q", "args": ["serve", "--stdio"]}


@given(
    st.dictionaries(st.sampled_from(["a", "b-c"]), st.text(st.characters(exclude_categories=["Cs"])) | st.booleans())
)
def test_a_table_is_read_as_it_was_written(table: dict[str, object]) -> None:
    assert tomllib.loads(table_text(PATH, table)) == {"mcp_servers": {"codequarry-app": table}}


@given(toml_texts())
def test_a_table_comes_behind_all_else_and_goes_alone(text: str) -> None:
    before = read_value(text)
    put = put_table(text, PATH, TABLE)
    assert put.startswith(text)
    assert read_value(put)["mcp_servers"].pop("codequarry-app") == TABLE
    assert take_table(put, PATH, TABLE).rstrip() == text.rstrip()
    changed = put_table(put, PATH, {"url": "u"}, TABLE)
    assert read_value(changed)["mcp_servers"]["codequarry-app"] == {"url": "u"}
    assert take_table(changed + "[later]\n", PATH, {"url": "u"}).rstrip().endswith("[later]")
    assert read_value(take_table(changed, PATH, {"url": "u"})) == before


def test_a_table_that_others_wrote_is_not_taken() -> None:
    text = '[mcp_servers.codequarry-app]\nargs = ["serve", "--stdio"]\ncommand = "/opt/c q"\n'
    with pytest.raises(InvalidArgumentError):
        take_table(text, PATH, TABLE)
    with pytest.raises(InvalidArgumentError):
        put_table(text, PATH, {}, TABLE)


@pytest.mark.parametrize("text", ["a = ", "[a]\n[a]\n", "a = 1\na = 2\n", '"""'])
def test_what_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        read_value(text)
