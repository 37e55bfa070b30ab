"""Delta versions: when there is one, what is kept, and what a failure leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.retention import prune
from codequarry.pipelines.publish.rollback import roll_back
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack import base_version, build
from codequarry.pipelines.stack.base_version import KeptSources
from codequarry.pipelines.stack.build import NotStacked, index_changes
from codequarry.pipelines.syntax.facts.table import SourceModule, read_modules
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.errors import IntegrityError, PublishError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import current_manifest
from codequarry.serving.version.file_checks import check_version
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.repositories import commit
from tests.pipelines.stack.test_changes import FILES, changes, edit, with_any_share


@pytest.fixture
def settings(tmp_path: Path, make_settings: MakeSettings) -> Settings:
    """Settings of a small repository, with a complete version of it published."""
    commit(tmp_path / "app", FILES)
    made = with_any_share(make_settings(tmp_path / "app"))
    index_repositories(made)
    return made


def named(report: IndexReport) -> str:
    return report.manifest.version


def test_the_same_base_and_sources_give_the_same_bytes(tmp_path: Path, settings: Settings) -> None:
    repo = tmp_path / "app"
    edit(repo)
    one = changes(settings)
    roll_back(BundleRoot(settings.bundle.root))
    two = changes(settings)
    assert one.manifest.digest == two.manifest.digest
    assert {entry.path: entry.content_sha256 or entry.sha256 for entry in one.manifest.files} == {
        entry.path: entry.content_sha256 or entry.sha256 for entry in two.manifest.files
    }


def test_what_was_read_of_a_base_serves_later_versions_over_it_and_no_other(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[Path] = []

    def read(table: Path) -> list[SourceModule]:
        tables.append(table)
        return read_modules(table)

    def digest(text: str, kept: KeptSources | None = None) -> str:
        (tmp_path / "app/pkg/mod1.py").write_text(text)
        report = index_changes(settings, kept=kept)
        assert isinstance(report, IndexReport), report
        return report.manifest.digest

    monkeypatch.setattr(base_version, "read_modules", read)
    kept, one, other = KeptSources(), "from pkg.mod2 import work2\n", "from pkg import mod3, mod4\n"
    with_kept = [digest(one, kept), digest(other, kept)]
    assert len(tables) == 1
    assert [digest(one), digest(other)] == with_kept
    assert len(tables) == 3
    index_repositories(settings, whole=True)
    over_another = digest(one, kept)
    assert len(tables) == 4
    digest("")
    assert digest(one) == over_another


def test_only_small_files_are_written(tmp_path: Path, settings: Settings) -> None:
    edit(tmp_path / "app")
    over = changes(settings)
    written = {
        entry.path: entry.size_bytes for entry in over.manifest.files if (over.path / entry.path).stat().st_nlink == 1
    }
    assert sum(written.values()) < 1_000_000
    assert not any(path.startswith("encoder/tables") or path.endswith(".onnx") for path in written)


def test_a_complete_version_over_a_delta_is_that_of_a_build_from_nothing(
    tmp_path: Path, settings: Settings, make_settings: MakeSettings
) -> None:
    edit(tmp_path / "app")
    changes(settings)
    assert index_repositories(settings).unchanged
    full = index_repositories(settings, whole=True)
    assert full.manifest.stack is None
    assert (
        full.manifest.digest
        == index_repositories(make_settings(tmp_path / "app", home=tmp_path / "other")).manifest.digest
    )
    assert full.linked_bytes > 0
    assert isinstance(index_changes(settings), IndexReport)


def not_stacked(settings: Settings) -> str:
    report = index_changes(settings)
    assert isinstance(report, NotStacked), report
    return report.reason


def without_a_version(settings: Settings, _repo: Path) -> Settings:
    BundleRoot(settings.bundle.root).current.unlink()
    return settings


def with_other_settings(settings: Settings, _repo: Path) -> Settings:
    return settings.model_copy(
        update={"chunking": settings.chunking.model_copy(update={"max_chars": settings.chunking.max_chars - 1})}
    )


def with_another_repository(settings: Settings, repo: Path) -> Settings:
    first = settings.sources.repositories[0]
    commit(repo.parent / "lib", FILES)
    more = first.model_copy(update={"path": repo.parent / "lib"})
    return settings.model_copy(update={"sources": settings.sources.model_copy(update={"repositories": (first, more)})})


def with_a_small_share(settings: Settings, _repo: Path) -> Settings:
    return settings.model_copy(update={"bundle": settings.bundle.model_copy(update={"delta_share": 0.01})})


def with_an_old_base(settings: Settings, _repo: Path) -> Settings:
    return settings.model_copy(update={"bundle": settings.bundle.model_copy(update={"delta_hours": 1e-9})})


def without_the_work_folder(settings: Settings, _repo: Path) -> Settings:
    next(settings.paths.work.glob("repositories/*/parts/*/ast_mentions.parquet")).unlink()
    return settings


def with_a_damaged_base(settings: Settings, _repo: Path) -> Settings:
    root = BundleRoot(settings.bundle.root)
    (root.version(root.read_current().version).path / "open.sql").unlink()
    return settings


@pytest.mark.parametrize(
    "change",
    [
        without_a_version,
        with_other_settings,
        with_another_repository,
        with_a_small_share,
        with_an_old_base,
        without_the_work_folder,
        with_a_damaged_base,
    ],
)
def test_reasons_for_a_complete_version(
    change: Callable[[Settings, Path], Settings], tmp_path: Path, settings: Settings
) -> None:
    edit(tmp_path / "app")
    changed = change(settings, tmp_path / "app")
    assert not_stacked(changed)
    assert index_repositories(changed).manifest.stack is None
    assert isinstance(index_changes(with_any_share(changed)), IndexReport | NotStacked)


def test_a_base_stays_as_long_as_a_version_over_it(tmp_path: Path, settings: Settings) -> None:
    root, repo = BundleRoot(settings.bundle.root), tmp_path / "app"
    base = root.read_current().version
    made: list[str] = []
    for number in range(5):
        (repo / "pkg/mod1.py").write_text(f"def work1(x):\n    return x - {number + 7}\n")
        made.append(named(changes(settings)))
    assert base in root.version_names() and set(made[-3:]) <= set(root.version_names())
    assert not {*made[:2]} & {*root.version_names()}
    full = named(index_repositories(settings, whole=True))
    bundle = settings.bundle.model_copy(update={"keep_versions": 2})
    with publishing(root):
        prune(root, bundle)
    assert root.version_names() == sorted([base, made[-1], full])
    (repo / "pkg/mod1.py").write_text("def work1(x):\n    return 0\n")
    index_repositories(settings)
    with publishing(root):
        prune(root, bundle)
    assert base not in root.version_names() and full in root.version_names()


def test_without_its_base_a_version_is_damaged(tmp_path: Path, settings: Settings) -> None:
    root = BundleRoot(settings.bundle.root)
    base = root.read_current().version
    edit(tmp_path / "app")
    over = named(changes(settings))
    roll_back(root)
    assert root.read_current().version == base
    roll_back(root, over)
    root.version(base).manifest.unlink()
    assert current_manifest(root) is None
    with pytest.raises(IntegrityError):
        roll_back(root, over)
    assert index_repositories(settings).manifest.stack is None


def test_a_failure_leaves_current(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    root = BundleRoot(settings.bundle.root)
    before = root.read_current()
    edit(tmp_path / "app")

    def fail(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_stack", fail)
        with pytest.raises(PublishError):
            index_changes(settings)
    assert root.read_current() == before
    assert not list(root.versions.glob(".staging-*"))
    assert changes(settings).manifest.stack is not None


def test_a_base_that_goes_meanwhile_stops_the_publish(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = BundleRoot(settings.bundle.root)
    base = root.read_current()
    edit(tmp_path / "app")
    verified = build.verify_staged

    def and_damage(*arguments: object, **more: object) -> object:
        found = verified(*arguments, **more)  # type: ignore[arg-type]
        (root.version(base.version).path / "open.sql").unlink()
        return found

    monkeypatch.setattr(build, "verify_staged", and_damage)
    with pytest.raises(PublishError):
        index_changes(settings)
    assert root.read_current() == base


@pytest.mark.parametrize("name", ["hidden", "names", "dead", "places", "strings"])
def test_damaged_arrays_are_found(name: str, tmp_path: Path, settings: Settings) -> None:
    edit(tmp_path / "app")
    over = changes(settings)
    paths = BundlePaths(over.path)
    file = paths.stack / f"{name}.npy"
    array = np.load(file)
    file.unlink()
    wrong = np.zeros((1, *array.shape[1:]), array.dtype)
    wrong.view(np.uint8)[:] = 0xF1
    np.save(file, np.concatenate([array, wrong]))
    assert [check.name for check in check_version(paths, over.manifest) if not check.passed]


def test_commands(tmp_path: Path, run: Run) -> None:
    repo = tmp_path / "app"
    commit(repo, FILES)
    options = ("--root", str(tmp_path / "bundles"))
    assert run("index", repo, *options, "--delta").returncode == 0
    root = BundleRoot(tmp_path / "bundles")
    base = root.read_current().version
    (repo / "notes.md").write_text("# Notes\n\nSome.\n")
    for number in range(30):
        (repo / f"more{number}.md").write_text(f"# {number}\n")
    assert "no delta version" in run("index", repo, *options, "--delta").stderr
    base = root.read_current().version
    (repo / "notes.md").write_text("# Notes\n\nMore.\n")
    done = run("index", repo, *options, "--delta")
    assert done.returncode == 0, done.stderr
    assert f"over {base}: 1 file changed, 0 deleted; 1 chunk" in " ".join(done.stderr.split())
    over = root.read_current().version
    assert f"delta over {base}" in run("versions", *options).stdout
    whole = run("verify", "--deep", *options).stdout
    assert f"{over}, a delta over {base}, is whole" in whole and f"\n{base} is whole" in whole
    exported = run("export", tmp_path / "x.tar", *options)
    assert exported.returncode == 0 and f"with its base {base}" in " ".join(exported.stderr.split())
    assert run("index", repo, *options, "--full").returncode == 0
    assert root.read_current().version not in (over, base)
