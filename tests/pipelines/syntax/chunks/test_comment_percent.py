"""The share of comments of each chunk, beside Python's own tokenizer and parser."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from tests.pipelines.syntax.chunks.test_chunk import BY_LANGUAGE, ink

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documented_bytes(data: bytes) -> set[int]:
    """Offsets of all bytes of comments and docstrings, as Python itself sees them."""
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: set[int] = set()
    lines = data.decode().splitlines()
    for token in tokenize.generate_tokens(io.StringIO(data.decode()).readline):
        if token.type == tokenize.COMMENT:
            at = starts[token.start[0] - 1] + len(lines[token.start[0] - 1][: token.start[1]].encode())
            found |= set(range(at, at + len(token.string.encode())))
    for node in ast.walk(ast.parse(data)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            string = node.body[0]
            assert string.end_lineno is not None and string.end_col_offset is not None
            first, last = starts[string.lineno - 1], starts[string.end_lineno - 1]
            found |= set(range(first + string.col_offset, last + string.end_col_offset))
    return found


@pytest.mark.parametrize(("max_chars", "merge_chars"), [(1600, 600), (320, 120), (60, 20), (7, 1)])
def test_the_share_is_that_of_pythons_own_parser(max_chars: int, merge_chars: int) -> None:
    data = BY_LANGUAGE["python"].read_bytes()
    documented = documented_bytes(data)
    spans = chunk_source(data, "python", max_chars=max_chars, merge_chars=merge_chars).spans
    for span in spans:
        places = range(span.start_byte, span.end_byte)
        size = ink(data[span.start_byte : span.end_byte])
        comments = ink(bytes(data[at] for at in places if at in documented))
        assert span.comment_percent == (100 * comments // size if size else 0)
    assert any(span.comment_percent for span in spans)


def test_a_comment_cut_in_two_counts_in_both_chunks() -> None:
    data = b"/*\n" + b" * one line of a long licence\n" * 40 + b" */\nint main(void) { return 0; }\n"
    spans = chunk_source(data, "c", max_chars=300, merge_chars=100).spans
    assert [span.comment_percent for span in spans[:3]] == [100, 100, 100]
    assert spans[-1].comment_percent < 100


def test_what_is_not_parsed_has_no_comments() -> None:
    spans = chunk_source(b"; a comment\nkey = 1\n", "ini").spans
    assert [span.comment_percent for span in spans] == [0]
