"""Headings: the definition around the lines that a result shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from tests.serving.bundles.bundle_factory import Piece, write_bundle

FILLING = "    counted = counted + 1\n" * 10
TEXT = (
    f"def restart(worker):\n    drain(worker)\n{FILLING}\n\ndef start(worker):\n    launch(worker)\n{FILLING}\n\n"
    f"def _stop(worker):\n    halt(worker)\n{FILLING}"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("headings")
    write_bundle(folder, [Piece("a.py", TEXT, "", ("restart", "start", "_stop"))])
    return folder


@pytest.mark.parametrize(("query", "name"), [("drain", "restart"), ("launch", "start"), ("halt", "_stop")])
@pytest.mark.parametrize("explain", [False, True])
def test_of_several_definitions_the_one_around_the_window_is_named(root: Path, query: str, name: str, explain) -> None:
    """A name inside of another one is no definition: ``start`` does not begin where ``restart`` does."""
    engine = Engine.open(root, ServingSettings())
    try:
        (result,) = engine.search(SearchRequest(query=query, explain=explain)).results
    finally:
        engine.close()
    assert result.heading.split(" ")[-1] == name
    assert query in result.code
