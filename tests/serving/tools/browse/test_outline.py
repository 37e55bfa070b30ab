from __future__ import annotations

import pytest

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.wire.outline import OutlineRequest
from codequarry.schemas.wire.search import FileFilters
from codequarry.serving.render.browse import outline_text
from codequarry.serving.tools.browse.outline import outline


def ask(engine, path: str, **arguments):
    return engine.answer("outline", outline, OutlineRequest(path=path, **arguments))


def names(answer) -> list[list[str]]:
    return [[one.qualified_name for one in file.definitions] for file in answer.files]


def test_a_file_is_outlined_to_two_levels(symbol_engine) -> None:
    answer = ask(symbol_engine, "io/index.py")
    assert names(answer) == [["LIMIT", "Index", "Index.open", "Index.close"]]
    (file,) = answer.files
    assert (file.uri, file.lang, file.total_lines, file.total) == ("quarry/io/index.py", "python", 13, 4)
    index = file.definitions[1]
    assert (index.kind, index.start_line, index.end_line, index.depth) == ("class", 3, 12, 1)
    assert index.signature == "class Index"


def test_the_text_is_one_based_and_indented(symbol_engine) -> None:
    lines = outline_text(ask(symbol_engine, "io/index.py")).split("\n")
    assert lines[0] == "quarry/io/index.py  (python, 13 lines)"
    assert "  4-13  class Index" in lines
    assert "   7-9    def open(self, path)" in lines
    assert lines[-1].endswith("4 definitions")


def test_a_folder_has_a_line_for_each_file_with_its_outer_definitions(symbol_engine) -> None:
    answer = ask(symbol_engine, "io")
    assert names(answer) == [["LIMIT", "Index"], ["Store", "use"]]
    text = outline_text(answer)
    assert "quarry/io/store.py  class Store:5-7 · function use:10-12" in text


def test_depth_and_limit(symbol_engine) -> None:
    assert names(ask(symbol_engine, "io/index.py", depth=1)) == [["LIMIT", "Index"]]
    answer = ask(symbol_engine, "io", depth=2, limit=3)
    assert names(answer) == [["LIMIT", "Index", "Index.open"]]
    assert answer.total == 7
    assert any("3 of 7 definitions" in limit for limit in answer.limits)


def test_filters_narrow_a_folder(symbol_engine) -> None:
    answer = ask(symbol_engine, "", filters=FileFilters(lang=["go"]))
    assert [file.uri for file in answer.files] == ["gateway/main.go"]
    assert ask(symbol_engine, "io", filters=FileFilters(lang=["go"])).limits == [
        "the filters leave no file of this path"
    ]


@pytest.mark.parametrize(
    ("path", "error"), [("nowhere", NotFoundError), ("nowhere/x.py", NotFoundError), ("\0", InvalidArgumentError)]
)
def test_a_path_that_is_not_there(symbol_engine, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        ask(symbol_engine, path)
