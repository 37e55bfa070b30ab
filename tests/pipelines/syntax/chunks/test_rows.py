"""Tests of the columns that the chunks of a file become."""

import pytest

from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.chunks.rows import leaf_columns, reference_columns
from codequarry.schemas.records import ChunkSpan, FileChunks, References

pytestmark = pytest.mark.unit


def spans(*ends: int) -> tuple[ChunkSpan, ...]:
    starts = (0, *ends[:-1])
    return tuple(ChunkSpan(start, end, 0, 0, "", "block", 0, ()) for start, end in zip(starts, ends, strict=True))


def test_references_belong_to_the_chunk_that_holds_their_start() -> None:
    starts = (0, 4, 5, 9, 10, 20)  # the last one is a name that the parser missed at the end of the file
    count = len(starts)
    found = References(("a",) * count, ("call",) * count, starts, (0,) * count, starts)
    made = FileChunks(spans(5, 10, 20), parsed=True, references=found)
    *_, own_ids = reference_columns("repo", "a.py", made, [11, 12, 13])
    assert own_ids == [11, 11, 12, 12, 13, 13]


def test_columns_are_those_of_each_record() -> None:
    source = b"".join(b"def f%d(x):\n    return g(x) + %d\n\n" % (each, each) for each in range(30))
    made = chunk_source(source, "python", max_chars=80, merge_chars=40)
    ids = list(range(len(made.spans)))
    assert len(ids) > 5
    within = [
        next(number for number, span in enumerate(made.spans) if span.start_byte <= each.start_byte < span.end_byte)
        for each in made.references
    ]
    rows = [("r", "p", *each, number) for each, number in zip(made.references, within, strict=True)]
    assert list(zip(*reference_columns("r", "p", made, ids), strict=True)) == rows
    leaves = [("r", "p", number, *leaf) for number, span in enumerate(made.spans) for leaf in span.leaf_kinds]
    assert list(zip(*leaf_columns("r", "p", made, ids), strict=True)) == leaves


def test_a_file_without_syntax_has_no_rows() -> None:
    made = chunk_source(b"a b c\n", "ini")
    assert [len(column) for column in reference_columns("r", "p", made, [1])] == [0] * 8
    assert [len(column) for column in leaf_columns("r", "p", made, [1])] == [0] * 5
