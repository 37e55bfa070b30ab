"""F7: CURRENT empty, torn, garbage, two lines, dangling, a link: refused at the start, ignored by a running server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import Current
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from tests.faults.scenes.broken_current import SHAPES
from tests.serving.bundles.versions import MARKER, flip, followed, number_of, publish


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Current]]:
    root = tmp_path_factory.mktemp("prepared")
    return root, [publish(root, number) for number in range(2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_broken_current_is_refused_at_the_start_and_ignored_later(prepared, tmp_path, shape, caplog) -> None:
    root, currents = shutil.copytree(prepared[0], tmp_path / "root"), prepared[1]
    engine, follower = followed(root)
    SHAPES[shape](root / "CURRENT")
    with pytest.raises(UnavailableError) as caught:
        Engine.open(root, ServingSettings())
    assert caught.value.suggestion
    for _ in range(3):
        follower.look()
        assert number_of(engine.search(SearchRequest(query=MARKER))) == 1
    assert follower.following is False
    assert len([record for record in caplog.records if "not serving" in record.message]) == 1
    if (root / "CURRENT").is_dir():
        (root / "CURRENT").rmdir()
    flip(root, currents[0])
    follower.look()
    assert number_of(engine.search(SearchRequest(query=MARKER))) == 0
    assert follower.following is True
    engine.served.close()
