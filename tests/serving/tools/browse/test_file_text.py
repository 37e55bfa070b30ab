"""Lines of files through `fetch`, against the sources they come from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import FetchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.tools.browse.file_text import around, beside, definitions_in
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.bundles.symbol_corpus import INDEX, SOURCES

ODD = {
    "odd/crlf.txt": "one\r\ntwo\r\n\r\nfour",
    "odd/blank.txt": "\n\n\nx\n\n",
    "odd/no_end.py": "def f():\n    return '日本語 🎉'",
    "odd/one.txt": "no line break",
    "odd/separators.txt": "a\u2028b\x0cc\x85d\ne\n",
    "odd/wide.js": "var größe=1;" * 30 + "\nlast\n",
}
FILES = {**ODD, **{source.path: source.text for source in SOURCES if source.repo == "quarry"}}


def cut(path: str, text: str, size: int) -> list[Piece]:
    """Chunks of a file, of so many characters each, wherever that is."""
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    pieces: list[Piece] = []
    for number, part in enumerate(parts):
        before = "".join(parts[:number])
        pieces.append(Piece(path, part, start_line=before.count("\n"), start_byte=len(before.encode())))
    return pieces


@pytest.fixture(scope="module")
def odd_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("odd")
    write_bundle(root, [piece for path, text in FILES.items() for piece in cut(path, text, 7)])
    engine = Engine.open(root, ServingSettings())
    yield engine
    engine.close()


def lines_of(text: str) -> list[str]:
    """Lines with their ends; a file that ends with a line break has no line behind it."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(FILES)), st.integers(1, 40), st.integers(0, 40), st.sampled_from([":{}-{}", "#L{}-L{}"]))
def test_a_range_is_the_lines_of_the_source(odd_engine, path: str, first: int, more: int, form: str) -> None:
    lines = lines_of(FILES[path])
    first = min(first, len(lines))
    (found,) = odd_engine.fetch(FetchRequest(objectIds=[path + form.format(first, first + more)])).objects
    wanted = "".join(lines[first - 1 : first + more])
    assert found.content == wanted
    assert (found.metadata.start_line, found.metadata.end_line) == (first - 1, min(first + more, len(lines)) - 1)
    whole = FILES[path].encode()
    assert whole[found.metadata.start_byte : found.metadata.end_byte] == wanted.encode()
    assert found.metadata.total_lines == len(lines)


@pytest.mark.parametrize("path", sorted(FILES))
def test_a_path_is_the_whole_file(odd_engine, path: str) -> None:
    (found,) = odd_engine.fetch(FetchRequest(objectIds=[path])).objects
    assert found.content == FILES[path]
    assert (found.metadata.start_byte, found.metadata.end_byte) == (0, len(FILES[path].encode()))
    assert found.metadata.kind == "file"


def test_definitions_are_nested_by_their_lines(symbol_engine) -> None:
    bundle = symbol_engine.bundle
    file = bundle.directory.find("quarry", "io/index.py")
    nested = definitions_in(bundle, [file])[file]
    assert [(one.row.qualified_name, one.depth) for one in nested] == [
        ("LIMIT", 1), ("Index", 1), ("Index.open", 2), ("Index.close", 2),
    ]  # fmt: skip
    line = INDEX.text[: INDEX.text.index("return opened")].count("\n")
    assert [one.row.name for one in around(nested, line, line)] == ["Index", "open"]
    before, after = beside(nested, line, line, 2)
    assert (before.row.name, after.row.name) == ("LIMIT", "close")
