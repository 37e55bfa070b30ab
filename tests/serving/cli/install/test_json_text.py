"""Edits of JSON with comments: everything else in the text stays as it is, byte by byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.cli.install.json_text import put_member, read_value, take_member
from tests.serving.cli.install.config_texts import jsonc_texts

PATH = ("mcpServers", "codequarry")
ENTRY = {"command": "/opt/c q", "args": ["serve", "--stdio"]}


def test_a_comment_stays_with_its_line_and_a_trailing_comma_stays() -> None:
    text = '// mine\n{\n\t"servers": {\n\t\t"a": {"x": 1}, // of a\n\t\t/* last */\n\t}, // tail\n\t"b": [1, 2,],\n}\n'
    put = put_member(text, ("servers", "codequarry"), {"command": "c"})
    assert put == (
        '// mine\n{\n\t"servers": {\n\t\t"a": {"x": 1}, // of a\n\t\t/* last */\n'
        '\t\t"codequarry": {\n\t\t\t"command": "c"\n\t\t},\n\t}, // tail\n\t"b": [1, 2,],\n}\n'
    )
    assert take_member(put, ("servers", "codequarry")) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x":{}}', '{"x":{}, "a": {"b": 1}}'),
        ('{\r\n    "x": 1\r\n}\r\n', '{\r\n    "x": 1,\r\n    "a": {\r\n        "b": 1\r\n    }\r\n}\r\n'),
        ('{\n  "x": 1 // one\n}', '{\n  "x": 1, // one\n  "a": {\n    "b": 1\n  }\n}'),
        ("{\n  // none yet\n}", '{\n  // none yet\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n  "a": {}\n}', '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n  "a": {"b": {"old": [1]}, "c": 2}\n}', '{\n  "a": {"b": 1, "c": 2}\n}'),
    ],
)
def test_a_member_is_put_in_the_style_of_the_text(text: str, expected: str) -> None:
    assert put_member(text, ("a", "b"), 1) == expected


def test_a_member_is_taken_out_with_its_comma_and_nothing_else() -> None:
    text = '{\n  "m": {\n    "a": 1, // of a\n    "c": 2 // of c\n  },\n  "z": 3\n}\n'
    assert take_member(text, ("m", "c")) == '{\n  "m": {\n    "a": 1 // of a // of c\n  },\n  "z": 3\n}\n'
    assert take_member(text, ("m", "a")) == '{\n  "m": { // of a\n    "c": 2 // of c\n  },\n  "z": 3\n}\n'
    assert take_member('{"m": {"a": 1, "c": 2}}', ("m", "a")) == '{"m": { "c": 2}}'
    assert take_member('{"m": {"a": 1, "c": 2}}', ("m", "c")) == '{"m": {"a": 1}}'


def test_objects_that_were_made_for_it_go_with_it() -> None:
    text = '{\n  "x": 1,\n  "m": {\n    "n": {\n      "a": 1\n    }\n  }\n}\n'
    assert take_member(text, ("m", "n", "a"), empty_too=2) == '{\n  "x": 1\n}\n'
    assert json.loads(take_member(text, ("m", "n", "a"), empty_too=1)) == {"x": 1, "m": {}}
    assert json.loads(take_member(text, ("m", "n", "a"))) == {"x": 1, "m": {"n": {}}}


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        '{"a": 1',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "{,}",
        '{"a": 1,,}',
        "/* no end",
        '{"a": "\n"}',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        read_value(text, comments=True, commas=True)


def test_comments_and_trailing_commas_are_refused_where_the_client_reads_none() -> None:
    for text, comments, commas in (("{} // x", True, False), ('{"a": [1,]}', False, True), ("/* x */ {}", True, False)):
        assert isinstance(read_value(text, comments=comments, commas=commas), dict)
        with pytest.raises(InvalidArgumentError):
            read_value(text, comments=not comments, commas=not commas)
    assert read_value('{"a": "// no comment,]"}', comments=False, commas=False) == {"a": "// no comment,]"}


def test_an_object_on_the_path_must_be_one() -> None:
    with pytest.raises(InvalidArgumentError):
        put_member('{"mcpServers": []}', PATH, ENTRY)


@given(jsonc_texts(), st.sampled_from([PATH, ("a",), ("servers", "x-1"), ("a", "b", "c")]))
def test_what_is_put_is_there_and_all_else_is_as_it_was(text: str, path: tuple[str, ...]) -> None:
    before = read_value(text, comments=True, commas=True)
    level = before
    for key in path[:-1]:
        level = level.setdefault(key, {})
        if not isinstance(level, dict):
            return
    there = path[-1] in level
    level[path[-1]] = ENTRY
    put = put_member(text, path, ENTRY)
    assert read_value(put, comments=True, commas=True) == before
    assert put_member(put, path, ENTRY) == put
    if not there:
        taken = take_member(put, path)
        del level[path[-1]]
        assert read_value(taken, comments=True, commas=True) == before
