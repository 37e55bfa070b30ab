"""The paths of a manifest: what can be made below one folder passes, everything else is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.schemas.file_paths import MAX_PATH_BYTES, check_file_paths
from codequarry.schemas.integrity import list_files


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "/", "/etc/passwd", "../up", "a/../b", "a/./b", "a//b", "a/", "~/../x", "a\0b", "a\nb", "a\x1bb",
     "\u202ea", "\ud800", "n" * 256, "ü" * 128, "/".join(["d" * 99] * 6), "/".join("d" * 17),
     "manifest.json", "manifest.json/x"],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_or_cannot_be_made_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        check_file_paths([path], taken="manifest.json")


@pytest.mark.parametrize("paths", [["a", "a"], ["a", "a/b"], ["a/b/c", "a/b"], ["x/manifest.json", "x"]])
def test_paths_that_cannot_stand_side_by_side_are_refused(paths: list[str]) -> None:
    with pytest.raises(ValueError):
        check_file_paths(paths, taken="manifest.json")


@settings(deadline=None)
@given(st.lists(st.text("ab/.~ü", min_size=1, max_size=6), max_size=6))
def test_what_passes_can_be_made_and_is_found_again(paths: list[str]) -> None:
    try:
        check_file_paths(paths, taken="manifest.json")
    except ValueError:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "deep" / "down"
        folder.mkdir(parents=True)
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).touch(exist_ok=False)
        assert list_files(folder) == sorted(paths)
        assert len(list_files(Path(name))) == len(paths)


def test_the_longest_path_passes() -> None:
    path = "/".join(["d" * 127] * 4)
    assert len(path) == MAX_PATH_BYTES - 1
    check_file_paths([path, "manifest.json.txt", ".hidden", "größe/日本"], taken="manifest.json")
