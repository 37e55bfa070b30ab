from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.overview import OverviewRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.render.browse import overview_text
from codequarry.serving.tools.browse.overview import overview
from tests.serving.bundles.bundle_factory import Piece, write_bundle


def ask(engine, *repos: str):
    return engine.answer("overview", overview, OverviewRequest(repos=list(repos)))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("overview")
    paths = [
        "README.md", "docs/DESIGN.md", "docs/deep/er/NOTES.md", "LICENSE.txt", "requirements.txt",
        "src/app/__main__.py",
        "src/app/util.py", "cmd/tool/main.go", "cmd/tool/flags.go", "bin/start", "tests/main.py", "lib/server.py",
    ]  # fmt: skip
    pieces = [Piece(path, "x\n" * 10) for path in paths]
    pieces += [Piece("main.rs", "fn main() {}\n", repo=f"r{number:02}") for number in range(30)]
    write_bundle(root, pieces, commits={"quarry": "a" * 40})
    opened = Engine.open(root, ServingSettings())
    yield opened
    opened.close()


def test_one_repository_in_full(engine) -> None:
    (one,) = ask(engine, "quarry").repositories
    assert (one.name, one.commit, one.files) == ("quarry", "a" * 40, 12)
    assert one.entry_points == [
        "quarry/cmd/tool/main.go", "quarry/src/app/__main__.py", "quarry/bin/start", "quarry/lib/server.py",
    ]  # fmt: skip
    assert one.documents == ["quarry/README.md", "quarry/docs/DESIGN.md"]
    assert {folder.uri: folder.files for folder in one.folders}["quarry/cmd/tool"] == 2
    assert sum(language.share for language in one.languages) == pytest.approx(1, abs=0.01)


def test_many_repositories_stay_short(engine) -> None:
    answer = ask(engine)
    assert answer.repositories_total == 31
    assert [bool(one.folders) for one in answer.repositories][:5] == [True, True, True, False, False]
    assert "3 of 31 repositories are described in full" in answer.limits[0]
    text = overview_text(answer)
    assert len(text.split("\n")) <= 60
    assert f"version {answer.bundle.version}" in text


def test_a_version_without_an_index_of_files_is_described_too(engine, tmp_path: Path) -> None:
    paths = write_bundle(tmp_path, [Piece("a.py", "x\n")])
    opened = Engine.open(tmp_path, ServingSettings())
    try:
        del opened.bundle.files
        (paths.files / "facts.npy").rename(paths.files / "gone.npy")
        assert "the index of files is off" in ask(opened).limits[0]
    finally:
        opened.close()


def test_an_unknown_repository(engine) -> None:
    with pytest.raises(InvalidArgumentError):
        ask(engine, "nowhere")
