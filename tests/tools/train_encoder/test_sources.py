"""Packages to train on: what is fetched, refused, and taken out of archives."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from pathlib import Path

import pytest

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from tests.tools.train_encoder.packages import wheel
from tools.train_encoder.sources import TrainingSource, fetch, files, read_sources


def tarball(path: Path, contents: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("package/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return path


def test_archives_give_small_wanted_files_and_follow_no_link(tmp_path: Path) -> None:
    large = b"x" * 200_001
    made = tarball(tmp_path / "a.tgz", {"package/a.py": b"a", "package/../../b.py": b"b", "package/c.py": large})
    assert list(files(made, lambda path: path.endswith(".py"))) == [("a.py", b"a"), ("../../b.py", b"b")]
    made = wheel(tmp_path / "a.whl", {"a/a.py": b"a", "a/c.py": large, "a/d.txt": b"d"})
    assert list(files(made, lambda path: path.endswith(".py"))) == [("a/a.py", b"a")]


def test_an_archive_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    wheel(tmp_path / "pypi" / "a.whl", {"a.py": b"a"})
    with pytest.raises(IntegrityError, match=r"a\.whl: sha256 [0-9a-f]{64}, expected 0{64}"):
        fetch(TrainingSource("pypi", "a", "1", "MIT", "a.whl", "0" * 64, ""), tmp_path)


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_wheel_is_asked_for_by_the_platforms_of_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a-1-cp311-abi3-manylinux_2_34_x86_64.whl"
    client = script(
        tmp_path / "python", f'case "$*" in *"--platform manylinux_2_34_x86_64 "*) printf w > {name};; esac'
    )
    monkeypatch.setattr(sys, "executable", str(client))
    fetched = fetch(TrainingSource("pypi", "a", "1", "MIT", name, hashlib.sha256(b"w").hexdigest(), ""), tmp_path)
    assert fetched.read_bytes() == b"w"


def test_a_source_package_that_was_replaced_is_taken_where_its_tarball_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = 'case "$*" in *=*) echo "E: Unable to find a source package" >&2; exit 100;; esac'
    script(tmp_path / "apt-get", f"{gone}\nprintf t > a_1.orig.tar.gz")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    digest = hashlib.sha256(b"t").hexdigest()
    fetched = fetch(TrainingSource("debian", "a", "1-1+deb12u5", "MIT", "a_1.orig.tar.gz", digest, ""), tmp_path)
    assert fetched.read_bytes() == b"t"
    with pytest.raises(UnavailableError, match=r"a_2\.orig\.tar\.gz was not fetched: .*"):
        fetch(TrainingSource("debian", "a", "2-1", "MIT", "a_2.orig.tar.gz", digest, ""), tmp_path)


@pytest.mark.parametrize("text", ["", "pypi = 1", "never = []\npypi = [['a']]\nnpm = []\ndebian = []", "= ="])
def test_a_list_that_is_none_is_explained(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.toml").write_text(text)
    with pytest.raises(InvalidArgumentError, match="no list of sources"):
        read_sources(tmp_path / "sources.toml")


def test_the_pinned_packages_are_permissive_and_cover_the_languages() -> None:
    listed = read_sources()
    copyleft = [one.key for one in listed.sources if "GPL" in one.license and " OR " not in one.license]
    assert copyleft == []
    held_out = [one for one in listed.sources if one.held_out]
    assert len(held_out) >= 15
    assert len({one.held_out for one in held_out}) >= 6
    assert {"fmt", "express", "tokio"} <= listed.never
    assert len({one.file for one in listed.sources}) == len(listed.sources)
