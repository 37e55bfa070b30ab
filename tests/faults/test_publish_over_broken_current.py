"""F7 for a publisher: whatever CURRENT is, the next publish makes it right, or says why not and changes nothing."""

from __future__ import annotations

import pytest

from codequarry.schemas.errors import PublishError
from tests.faults.scenes.broken_current import SHAPES
from tests.faults.scenes.scene import NEW, OLD, OLDEST, Scene


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "a folder"])
def test_a_publish_repairs_current(scene: Scene, shape: str) -> None:
    SHAPES[shape](scene.root.current)
    scene.publish()
    assert not scene.root.current.is_symlink()
    assert scene.check(allowed=(NEW,)) == NEW
    assert scene.root.version_names() == [OLD, NEW]
    assert scene.litter() == []


def test_a_folder_in_its_place_is_named(scene: Scene) -> None:
    SHAPES["a folder"](scene.root.current)
    with pytest.raises(PublishError, match="Is a directory"):
        scene.publish()
    assert scene.root.version_names() == [OLDEST, OLD]
    assert scene.litter() == []
