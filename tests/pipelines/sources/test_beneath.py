"""Files are opened below their root: a folder that becomes a link while it is read leads nowhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from codequarry.pipelines.sources import census, sources
from codequarry.pipelines.sources.beneath import Beneath, OutsideError, leads_out
from codequarry.pipelines.sources.census import CensusFile, take_census
from codequarry.pipelines.sources.snapshot import read_contents, snapshot_repository
from codequarry.pipelines.sources.sources import list_source, repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.settings.load import RepositorySettings, SourcesSettings
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit

NAMES = tuple(f"f{number:03}.py" for number in range(300))


def make(tmp_path: Path, kind: str) -> Path:
    """A repository whose folder ``d`` holds the names, and a folder outside that holds others by the same names."""
    repo, outside = tmp_path / "repo", tmp_path / "outside"
    outside.mkdir()
    for name in NAMES:
        (outside / name).write_text("LEAKED = 1\n")
    (outside / ".codequarryignore").write_text("f299.py\n")
    (outside / "only_outside.py").write_text("LEAKED = 1\n")
    files: dict[str, str | bytes] = {f"d/{name}": "inside = 1\n" for name in NAMES}
    if kind == "git":
        commit(repo, files)
    else:
        (repo / "d").mkdir(parents=True)
        for name in files:
            (repo / name).write_text("inside = 1\n")
    return repo


def swap(repo: Path) -> None:
    (repo / "d").rename(repo.parent / "moved")
    (repo / "d").symlink_to(repo.parent / "outside")


def back(repo: Path) -> None:
    (repo / "d").unlink()
    (repo.parent / "moved").rename(repo / "d")


def read(repo: Path) -> dict[str, CensusFile]:
    source = list_source(RepositorySettings(path=repo, name="repo"))
    return {entry.path: entry for entry in take_census(source, SourcesSettings())}


def once(act: Callable[[], object], real: Callable[..., object]) -> Callable[..., object]:
    """The function, with something that happens before its first call."""
    done: list[bool] = []

    def call(*arguments: object) -> object:
        if not done:
            done.append(True)
            act()
        return real(*arguments)

    return call


@pytest.mark.parametrize("kind", ["git", "plain"])
@pytest.mark.parametrize("step", ["by_kind", "by_size", "by_content", "language_of"])
def test_row_31_a_folder_swapped_between_two_steps_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    """The steps lie before and behind the look at a file, and behind the reading of one."""
    repo = make(tmp_path, kind)
    monkeypatch.setattr(census, step, once(lambda: swap(repo), getattr(census, step)))
    found = read(repo)
    assert (repo / "d").is_symlink()
    assert not [path for path, entry in found.items() if b"LEAKED" in entry.content]
    assert {entry.content for entry in found.values() if entry.skip_reason is None} <= {b"inside = 1\n"}


@pytest.mark.parametrize("kind", ["git", "plain"])
def test_row_31_a_folder_swapped_after_the_listing_is_a_record(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Through the snapshot, which is what every later stage reads."""
    repo = make(tmp_path, kind)
    (repo / "z.py").write_text("inside = 1\n")
    monkeypatch.setattr(census, "settings_patterns", once(lambda: swap(repo), census.settings_patterns))
    settings = make_settings(repo)
    (repository,) = repositories_by_name(settings.sources.repositories).values()
    snapshot = snapshot_repository(repository, settings)
    contents = list(read_contents(repository_work(settings.paths.work, "repo")))
    assert [path for path, *_ in contents] == ["z.py"]
    assert snapshot.skipped == {"outside_tree": len(NAMES)}


def test_row_31_a_folder_swapped_while_a_plain_directory_is_listed_lists_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make(tmp_path, "plain")
    real = Beneath.entries

    def entries(tree: Beneath, folder: bytes) -> object:
        if folder == b"d":
            swap(repo)
        return real(tree, folder)

    monkeypatch.setattr(sources.Beneath, "entries", entries)
    assert list_source(RepositorySettings(path=repo, name="repo")).paths == (b"d",)


@pytest.mark.timeout(120)
def test_row_31_a_race_is_lost_by_who_swaps(tmp_path: Path) -> None:
    repo = make(tmp_path, "git")
    ends = threading.Event()

    def race() -> None:
        while not ends.is_set():
            swap(repo)
            back(repo)

    racer = threading.Thread(target=race)
    racer.start()
    try:
        read_files = list(chain.from_iterable(read(repo).values() for _ in range(12)))
    finally:
        ends.set()
        racer.join()
    assert not [entry.path for entry in read_files if b"LEAKED" in entry.content]
    assert {entry.path for entry in read_files if entry.skip_reason is None} <= {f"d/{name}" for name in NAMES}


def test_names_that_lead_out_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    repo = make(tmp_path, "plain")
    (repo / "link").symlink_to("d")
    (repo / "link.py").symlink_to("d/f000.py")
    os.mkfifo(repo / "pipe")
    with Beneath(os.fsencode(repo)) as tree:
        for path in (b"../outside/f000.py", b"d/../../outside/f000.py", b"/etc/passwd", b"..", b"link/f000.py", b"d/."):
            with pytest.raises(OutsideError):
                tree.read(path, 10)
        for path in (b"link.py", b"pipe", b"d", b"none", b"none/a.py", b"pipe/a.py"):
            with pytest.raises(OSError):
                tree.read(path, 10)
        assert (tree.read(b"d/f000.py", 3), tree.status(b"d/f000.py").st_size) == (b"insi", 11)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "f.py").write_text("x")
    with Beneath(os.fsencode(tmp_path)) as tree:
        before = len(os.listdir("/dev/fd"))
        for path in (b"a/b/c/f.py", b"a/b/none/f.py", b"a/f.py", b"a/b/c/f.py") * 20:
            try:
                tree.read(path, 10)
            except OSError:
                continue
        assert len(os.listdir("/dev/fd")) <= before + 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"a/b.py", False),
        (b"..", True),
        (b"a/../b", True),
        (b"/a", True),
        (b"a//b", True),
        (b"a/./b", True),
        (b"...", False),
    ],
)
def test_paths_that_lead_out(path: bytes, expected: bool) -> None:
    assert leads_out(path) is expected
