"""Reading an index: what it says, in which unit its columns are, and what is left of a damaged one."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.scip.conversion import ScipTables, scip_tables
from codequarry.pipelines.scip.index_file import ScipIndex, decode_document, read_scip, read_scip_json
from codequarry.pipelines.scip.positions import Positions, as_utf8
from codequarry.pipelines.scip.symbols import parse_symbol
from codequarry.schemas.errors import ScipIndexError
from tests.pipelines.scip.scip_writer import document, external, information, metadata, occurrence

BOX = "scip-test pip box 1.0 `box.py`/Box#"
OPEN = f"{BOX}open()."
SOURCE = "class Box:\n    s = 'ü𝒳'; k = 1\n    def open(self): return 2\n"


def converted(index: ScipIndex, **files: bytes) -> ScipTables:
    held = {name.replace("_", "."): ("python", content) for name, content in files.items()}
    return scip_tables("demo", index, held.get)


def rows(table, *columns: str) -> list[tuple]:
    return [tuple(row.values()) for row in table.select(list(columns)).to_pylist()]


def test_documents_symbols_and_occurrences_become_rows() -> None:
    described = [
        information(BOX, ["```python\nclass Box:\n```", "A box."], relationships=[("scip-test . . . Base#", [2, 3])]),
        information(OPEN, ["Opens."], kind=26, name="open it", signature="def open(self)", enclosing=BOX),
        information("local 4", name="tmp", enclosing=OPEN),
    ]
    parts = [
        occurrence(BOX, [0, 6, 9], 1, [0, 0, 2, 28]),
        occurrence(OPEN, [2, 8, 12], 1 | 32),
        occurrence("local 4", [2, 8, 2, 12], 4 | 8 | 2 | 16),
    ]
    data = metadata() + document("box.py", *parts, symbols=described) + external(information("scip-test . . . Base#"))
    made = converted(read_scip(data), box_py=SOURCE.encode())
    assert rows(made.documents, "repo", "path", "lang", "indexer", "position_encoding", "symbols", "occurrences") == [
        ("demo", "box.py", "python", "scip-test 1.2", "utf-8", 3, 3)
    ]
    assert rows(made.symbols, "path", "manager", "package", "version", "qualified_name", "display_name", "kind") == [
        ("box.py", "pip", "box", "1.0", "box.py.Box", "Box", "class"),
        ("box.py", "pip", "box", "1.0", "box.py.Box.open", "open it", "method"),
        ("box.py", "", "", "", "", "tmp", "local"),
        ("", "", "", "", "Base", "Base", "type"),
    ]
    assert rows(made.symbols, "signature", "documentation", "enclosing_symbol")[:2] == [
        ("class Box:", "A box.", "scip-test pip box 1.0 `box.py`/"),
        ("def open(self)", "Opens.", BOX),
    ]
    assert made.symbols["relationships"][0].as_py() == [
        "implementation scip-test . . . Base#",
        "reference scip-test . . . Base#",
    ]
    flags = ("is_definition", "is_import", "is_write", "is_read", "is_generated", "is_test")
    assert rows(made.occurrences, *flags) == [
        (True, False, False, False, False, False),
        (True, False, False, False, False, True),
        (False, True, True, True, True, False),
    ]
    places = ("start_byte", "end_byte", "start_line", "start_column", "end_line", "end_column")
    assert rows(made.occurrences, *places)[0] == (6, 9, 0, 6, 0, 9)
    assert rows(made.occurrences, "enclosing_start_byte", "enclosing_end_byte")[:2] == [(0, 63), (-1, -1)]


@pytest.mark.parametrize(("encoding", "column"), [(1, 18), (2, 15), (3, 14)])
def test_columns_follow_the_position_encoding_of_the_document(encoding: int, column: int) -> None:
    data = metadata() + document("a.py", occurrence("local 1", [1, column, column + 1]), encoding=encoding)
    made = converted(read_scip(data), a_py=SOURCE.encode())
    ((start, end, start_column),) = rows(made.occurrences, "start_byte", "end_byte", "start_column")
    assert SOURCE.encode()[start:end] == b"k"
    assert start_column == 18


@given(st.lists(st.text(st.characters(exclude_characters="\r\n\u2028\u2029", exclude_categories=["Cs"])), max_size=6))
def test_every_position_of_a_text_is_found_in_every_encoding(lines: list[str]) -> None:
    content = "\n".join(lines).encode()
    units = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
    for encoding, codec in units.items():
        positions = Positions(content, encoding)
        wanted, asked_lines, asked_columns, start = [], [], [], 0
        for number, line in enumerate(lines):
            for cut in range(len(line) + 1):
                size = len(line[:cut].encode(codec)) // len("a".encode(codec))
                asked_lines.append(number)
                asked_columns.append(size)
                wanted.append(start + len(line[:cut].encode()))
            start += len(line.encode()) + 1
        assert positions.offsets(_array(asked_lines), _array(asked_columns)).tolist() == wanted
        found_lines, columns = positions.places(_array(wanted))
        assert found_lines.tolist() == asked_lines
        assert [start - column for start, column in zip(wanted, columns.tolist(), strict=True)] == [
            content.rfind(b"\n", 0, start) + 1 for start in wanted
        ]


def _array(values: list[int]):
    import numpy as np

    return np.array(values, dtype=np.int64)


def test_carriage_returns_end_lines_and_script_files_lose_their_byte_order_mark() -> None:
    plain = Positions(b"a\rb\r\nc\n", "utf-8")
    assert plain.offsets(_array([0, 1, 2, 3]), _array([0, 0, 1, 0])).tolist() == [0, 2, 6, 7]
    script = Positions("\ufeffa\u2028b".encode(), "utf-16", ecmascript=True)
    assert script.offsets(_array([0, 1, 1]), _array([0, 0, 1])).tolist() == [3, 7, 8]


def test_bytes_that_are_not_utf8_count_one_each() -> None:
    assert as_utf8(b"caf\xe9 \xff\xc3\xbc") == b"caf? ?\xc3\xbc"
    assert as_utf8("ü".encode()) == "ü".encode()


def test_what_lies_outside_the_files_is_dropped_and_counted() -> None:
    spans = [[0, 0, 1], [0, 0, 99], [99, 0, 1], [0, 3, 1], [0, 1], []]
    parts = [occurrence(f"local {n}", span, 1) for n, span in enumerate(spans)]
    data = metadata() + document("gone.py", occurrence("local 0", [0, 0, 1])) + document("a.py", *parts)
    data += document("../../etc/passwd") + document("a.py", occurrence("local 9", [0, 0, 1]))
    made = converted(read_scip(data), a_py=b"abc\n")
    assert rows(made.occurrences, "symbol") == [("local 0",)]
    assert rows(made.documents, "path", "occurrences", "dropped") == [("a.py", 1, 5)]
    assert (made.unknown_documents, made.dropped_occurrences, made.damaged) == (2, 5, 1)


def test_an_enclosing_range_that_does_not_enclose_is_none() -> None:
    data = metadata() + document("a.py", occurrence("local 0", [1, 0, 1], 1, [0, 0, 0, 2]))
    made = converted(read_scip(data), a_py=b"abc\nabc\n")
    assert rows(made.occurrences, "start_byte", "enclosing_start_byte", "enclosing_end_byte") == [(4, -1, -1)]


def test_the_json_form_says_the_same() -> None:
    described = information(OPEN, ["Opens."], kind=26, relationships=[(BOX, [3])])
    data = metadata() + document("box.py", occurrence(OPEN, [2, 8, 12], 1), symbols=[described], encoding=2)
    text = json.dumps(
        {
            "metadata": {"version": "UnspecifiedProtocolVersion", "toolInfo": {"name": "scip-test", "version": "1.2"}},
            "documents": [
                {
                    "relativePath": "box.py",
                    "language": "x",
                    "positionEncoding": "UTF16CodeUnitOffsetFromLineStart",
                    "occurrences": [{"range": [2, 8, 12], "symbol": OPEN, "symbolRoles": 1}],
                    "symbols": [
                        {
                            "symbol": OPEN,
                            "documentation": ["Opens."],
                            "kind": "Method",
                            "relationships": [{"symbol": BOX, "isImplementation": True}],
                        }
                    ],
                }
            ],
        }
    )
    written, printed = (converted(each, box_py=SOURCE.encode()) for each in (read_scip(data), read_scip_json(text)))
    assert written == printed
    assert written.occurrences.num_rows == written.symbols.num_rows == 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"documents": 3}', '{"metadata": {"toolInfo": 1}}', "[" * 100_000])
def test_json_that_is_no_index_is_refused(text: str) -> None:
    with pytest.raises(ScipIndexError):
        read_scip_json(text)


@pytest.mark.parametrize(
    ("text", "names", "kinds"),
    [
        ("s m p v a/`b``c d`#e(+1).(f)", ("a", "b`c d", "e", "f"), ("namespace", "type", "method", "parameter")),
        ("s m p v a/B#[T]", ("a", "B", "T"), ("namespace", "type", "type_parameter")),
        ("s m p v a.b:c!", ("a", "b", "c"), ("term", "meta", "macro")),
        ("s m p v ä/", ("ä",), ("namespace",)),
        ("local a-1", ("a-1",), ("local",)),
        ("s m p v `open", (), ()),
        ("nothing", (), ()),
        ("s m p v ", (), ()),
        ("", (), ()),
    ],
)
def test_symbols_are_taken_apart(text: str, names: tuple[str, ...], kinds: tuple[str, ...]) -> None:
    symbol = parse_symbol(text)
    assert (symbol.names, symbol.kinds) == (names, kinds)


@given(st.lists(st.text(min_size=1), min_size=1), st.lists(st.text(min_size=1), min_size=4, max_size=4))
def test_escaped_symbols_survive(names: list[str], package: list[str]) -> None:
    package = [part.replace(" ", "_").replace(".", "_") + " x" for part in package]
    head = " ".join(part.replace(" ", "  ") for part in package)
    text = f"{head} " + "".join("`" + name.replace("`", "``") + "`/" for name in names)
    symbol = parse_symbol(text)
    assert symbol.names == tuple(names)
    assert [symbol.scheme, symbol.manager, symbol.package, symbol.version] == package


@pytest.mark.parametrize("data", [b"", b"\xff" * 57, b"garbage", document("a.py"), b"\n"])
def test_bytes_without_metadata_are_no_index(data: bytes) -> None:
    with pytest.raises(ScipIndexError, match="expected an index"):
        read_scip(data)


def whole_documents(index: ScipIndex) -> list[str]:
    return [path for path, data in index.documents if decode_document(data) is not None]


def test_a_cut_index_holds_the_documents_before_the_cut() -> None:
    documents = [document(f"f{n:02}.py", *[occurrence(f"local {n}", [0, 0, 1])] * 30) for n in range(40)]
    data = metadata() + b"".join(documents)
    ends = [len(metadata()) + sum(map(len, documents[: n + 1])) for n in range(40)]
    for cut in range(len(metadata()), len(data), 97):
        index = read_scip(data[:cut])
        assert whole_documents(index) == [f"f{n:02}.py" for n in range(40) if ends[n] <= cut]
        assert index.damaged == (cut not in (len(metadata()), *ends))


@pytest.mark.slow
def test_random_damage_is_a_typed_error_or_what_is_whole() -> None:
    generator = random.Random(7)
    data = metadata() + b"".join(document(f"f{n}.py", *[occurrence("local 1", [0, 0, 1])] * 9) for n in range(20))
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(generator.randrange(1, 6)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            made = scip_tables("demo", read_scip(bytes(damaged)), lambda path: ("python", b"abc\n"))
        except ScipIndexError:
            continue
        assert made.documents.num_rows <= 20
        assert set(made.occurrences["end_byte"].to_pylist()) <= set(range(5))
    for size in range(200):
        with pytest.raises(ScipIndexError):
            read_scip(b"\x07" + generator.randbytes(size))
