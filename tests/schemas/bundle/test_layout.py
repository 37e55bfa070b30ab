"""CURRENT: one valid line or a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.errors import IntegrityError, NoBundleError

GOOD = Current("20261121T120000Z-0123abcd", "a" * 64)


def test_the_line_round_trips(tmp_path: Path) -> None:
    root = BundleRoot(tmp_path)
    root.current.write_text(GOOD.line(), encoding="ascii")
    assert root.read_current() == GOOD


def test_no_current_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoBundleError, match="no bundle is published") as caught:
        BundleRoot(tmp_path).read_current()
    assert "codequarry index" in caught.value.suggestion


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n", b"garbage\n", GOOD.line().encode()[:-2], GOOD.line().encode() * 2,
        b"../../etc " + b"a" * 64 + b"\n",
        b"\0" * 90, GOOD.line().encode().rstrip(), GOOD.line().encode().replace(b" ", b"  "), b"\xff" * 90,
    ],
)  # fmt: skip
def test_torn_or_foreign_content_is_refused(tmp_path: Path, content: bytes) -> None:
    root = BundleRoot(tmp_path)
    root.current.write_bytes(content)
    with pytest.raises(IntegrityError, match="CURRENT"):
        root.read_current()


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(GOOD.line(), encoding="ascii")
    (tmp_path / "CURRENT").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="symbolic link"):
        BundleRoot(tmp_path).read_current()


@pytest.mark.parametrize("name", ["..", "a/b", "", "20261121T120000Z-0123abcd/..", ".staging-x"])
def test_only_version_names_become_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(IntegrityError, match="not a version name"):
        BundleRoot(tmp_path).version(name)


def test_versions_are_listed_oldest_first_without_staging(tmp_path: Path) -> None:
    names = ["20261121T120001Z-0123abcd", "20261121T120000Z-ffffffff", ".staging-1", "lost+found"]
    for name in names:
        (tmp_path / "versions" / name).mkdir(parents=True)
    assert BundleRoot(tmp_path).version_names() == [names[1], names[0]]


def test_a_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(NoBundleError, match="cannot be read"):
        BundleRoot(tmp_path / "file").read_current()
