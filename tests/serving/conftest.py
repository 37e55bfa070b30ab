"""Bundles and engines that several modules use. All are read-only: copy a bundle before damaging it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.pipelines.cli import root as cli
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import COMMITS, PIECES
from tests.serving.bundles.symbol_corpus import SOURCES
from tests.serving.bundles.symbol_rows import pieces_and_rows


@pytest.fixture(scope="session")
def bundle_root(tmp_path_factory: pytest.TempPathFactory, minilm_directory: Path) -> Path:
    """A root with one version: both channels, the real encoder."""
    root = tmp_path_factory.mktemp("bundle")
    write_bundle(root, PIECES, encoder=minilm_directory, commits=COMMITS)
    return root


@pytest.fixture(scope="session")
def lexical_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one version whose encoder is not there."""
    root = tmp_path_factory.mktemp("lexical")
    write_bundle(root, PIECES, commits=COMMITS)
    return root


@pytest.fixture(scope="session")
def engine(bundle_root: Path) -> Iterator[Engine]:
    """An engine over `bundle_root`."""
    opened = Engine.open(bundle_root, ServingSettings())
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def lexical_engine(lexical_root: Path) -> Iterator[Engine]:
    """An engine over `lexical_root`: the dense channel is off."""
    opened = Engine.open(lexical_root, ServingSettings())
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def symbol_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one version that has definitions, references and SCIP."""
    root = tmp_path_factory.mktemp("symbols")
    pieces, rows = pieces_and_rows(SOURCES)
    write_bundle(root, pieces, rows=rows)
    return root


@pytest.fixture(scope="session")
def symbol_engine(symbol_root: Path) -> Iterator[Engine]:
    """An engine over `symbol_root`."""
    opened = Engine.open(symbol_root, ServingSettings())
    yield opened
    opened.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run the console script in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["codequarry", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        code = left.value.code
        out, err = capsys.readouterr()
        return (code if isinstance(code, int) else 0), out, err

    return command
