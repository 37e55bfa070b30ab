from __future__ import annotations

import pytest

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.list_files import ListFilesRequest
from codequarry.schemas.wire.scope import SetScopeRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.render.browse import files_text
from codequarry.serving.tools.browse.list_files import list_files
from codequarry.serving.tools.scopes import set_scope
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.bundles.corpus import PIECES


def ask(engine, pattern: str = "", **arguments):
    return engine.answer("list_files", list_files, ListFilesRequest(pattern=pattern, **arguments))


def uris(answer) -> list[str]:
    return [file.uri for file in answer.files]


def test_everything_to_a_depth(symbol_engine) -> None:
    answer = ask(symbol_engine, depth=1)
    assert answer.folders == []
    assert len(answer.files) == answer.total == 6


def test_the_text_has_a_line_for_each_folder(symbol_engine) -> None:
    lines = files_text(ask(symbol_engine)).split("\n")
    assert lines[:5] == [
        "gateway/  main.go", "quarry/  config.json", "quarry/io/  index.py · store.py", "quarry/tests/  test_index.py",
        "quarry/web/  app.ts",
    ]  # fmt: skip


def test_deeper_folders_are_counted(tmp_path) -> None:
    paths = ["a/x.py", "a/b/y.py", "a/b/c/z.py", "a/b/c/d/w.py", "a/e/v.py"]
    write_bundle(tmp_path, [Piece(path, "x\n") for path in paths])
    engine = Engine.open(tmp_path, ServingSettings())
    try:
        answer = ask(engine, depth=1)
        assert uris(answer) == ["quarry/a/b/y.py", "quarry/a/e/v.py", "quarry/a/x.py"]
        assert [(folder.uri, folder.files) for folder in answer.folders] == [("quarry/a/b/c", 2)]
        assert files_text(answer).split("\n")[:4] == ["a/  x.py", "a/b/  y.py", "a/b/c/  (2 files)", "a/e/  v.py"]
        assert ask(engine, answer.folders[0].uri).total == 2
    finally:
        engine.close()


def test_a_folder_and_a_file(symbol_engine) -> None:
    assert uris(ask(symbol_engine, "io")) == ["quarry/io/index.py", "quarry/io/store.py"]
    assert uris(ask(symbol_engine, "quarry/io/")) == ["quarry/io/index.py", "quarry/io/store.py"]
    assert uris(ask(symbol_engine, "io/index.py")) == ["quarry/io/index.py"]
    with pytest.raises(NotFoundError):
        ask(symbol_engine, "nowhere")


def test_a_glob_lists_files_at_any_depth(symbol_engine) -> None:
    answer = ask(symbol_engine, "**/*.py", depth=1)
    assert uris(answer) == ["quarry/io/index.py", "quarry/io/store.py", "quarry/tests/test_index.py"]
    assert answer.folders == []
    with pytest.raises(InvalidArgumentError):
        ask(symbol_engine, "../*")


def test_language_class_and_scope(symbol_engine) -> None:
    assert uris(ask(symbol_engine, lang=["golang"])) == ["gateway/main.go"]
    assert uris(ask(symbol_engine, **{"class": "test"})) == ["quarry/tests/test_index.py"]
    scope = symbol_engine.answer("set_scope", set_scope, SetScopeRequest(include=["io"]))
    assert uris(ask(symbol_engine, scope_id=scope.scope_id)) == ["quarry/io/index.py", "quarry/io/store.py"]


def test_the_limit_is_said(symbol_engine) -> None:
    answer = ask(symbol_engine, limit=2)
    assert (len(answer.files), answer.total) == (2, 6)
    assert answer.limits[0].startswith("4 files left out")
    assert ask(symbol_engine, lang=["rust"]).limits == ["no indexed file matches; describe_index tells what is indexed"]


def test_names_of_files_cannot_hide_in_the_text(lexical_engine) -> None:
    text = files_text(ask(lexical_engine, limit=1000))
    assert len(ask(lexical_engine, depth=16).files) == len({(piece.repo, piece.path) for piece in PIECES})
    assert "\u202e" not in text
    assert "\x07" not in text
