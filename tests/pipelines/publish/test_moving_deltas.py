"""`codequarry export` and `codequarry import` of delta versions: with and without the complete version below."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from codequarry.pipelines.publish import arrival
from codequarry.pipelines.publish.archive.format import BASE
from codequarry.pipelines.publish.archive.import_ import import_version
from codequarry.pipelines.publish.archive.write import export_version
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import from_json
from codequarry.schemas.bundle.provenance import read_provenance
from codequarry.schemas.errors import CodequarryError, IntegrityError, PublishError
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    RetrievalSettings,
    ServingSettings,
    Settings,
    SourcesSettings,
)
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import list_files
from tests.pipelines.conftest import Run
from tests.pipelines.publish.archives import listed, member
from tests.pipelines.repositories import commit
from tests.pipelines.stack.alike import differing
from tests.pipelines.stack.test_changes import FILES, edit

Names = tuple[str, str]


@pytest.fixture(scope="module")
def stacked(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> BundleRoot:
    """A root whose CURRENT is a delta version; read-only by agreement."""
    home = tmp_path_factory.mktemp("stacked")
    commit(home / "app", FILES)
    settings = Settings(
        paths=PathsSettings(store=shared_store, work=home / "work"),
        bundle=BundleSettings(root=home / "bundles", delta_share=1),
        sources=SourcesSettings(repositories=(RepositorySettings(path=home / "app"),)),
        retrieval=RetrievalSettings(enabled=False),
    )
    index_repositories(settings)
    edit(home / "app")
    assert isinstance(index_changes(settings), IndexReport)
    return BundleRoot(settings.bundle.root)


def names_in(root: BundleRoot) -> Names:
    """Return the names of the delta version and of its base."""
    delta = root.read_current().version
    stack = from_json(root.version(delta).manifest.read_bytes()).stack
    assert stack is not None
    return delta, stack.base


def elsewhere(folder: Path) -> Settings:
    return Settings(
        paths=PathsSettings(store=folder / "store", work=folder / "work"),
        bundle=BundleSettings(root=folder / "bundles"),
    )


def alike(ours: BundleRoot, theirs: BundleRoot) -> list[str]:
    """Return the questions that two roots answer otherwise."""
    texts, paths = [str(text) for text in FILES.values()], [f"app/{path}" for path in FILES]
    with (
        closing(Engine.open(ours.path, ServingSettings())) as one,
        closing(Engine.open(theirs.path, ServingSettings())) as two,
    ):
        return differing(one, two, texts, paths)


def same_files(ours: BundleRoot, theirs: BundleRoot, name: str) -> bool:
    one, two = ours.version(name).path, theirs.version(name).path
    files = list_files(one)
    return files == list_files(two) and all((one / file).read_bytes() == (two / file).read_bytes() for file in files)


def test_a_delta_moves_with_its_base_and_answers_as_it_did(run: Run, stacked: BundleRoot, tmp_path: Path) -> None:
    delta, base = names_in(stacked)
    done = run("export", "app.tar", "--root", stacked.path)
    assert (done.returncode, done.stdout) == (0, "app.tar\n"), done.stderr
    assert f"with its base {base}" in " ".join(done.stderr.split())
    done = run("import", "app.tar", "--root", "other/bundles")
    assert done.returncode == 0, done.stderr
    assert f"with its base {base}" in " ".join(done.stderr.split())
    other = BundleRoot(tmp_path / "cwd/other/bundles")
    assert other.read_current().version == delta
    assert sorted(other.version_names()) == sorted((delta, base))
    assert all(same_files(stacked, other, name) for name in (delta, base))
    origins = [read_provenance(other, name) for name in (delta, base)]
    assert all(origin is not None and origin.file.endswith("app.tar") for origin in origins)
    assert alike(stacked, other) == []
    shared = [file for file in list_files(other.version(delta).path) if file.startswith("encoder/")]
    assert any((other.version(delta).path / file).stat().st_nlink > 1 for file in shared)
    again = run("import", "app.tar", "--root", "other/bundles")
    assert "nothing had to be done" in " ".join(again.stderr.split())
    verified = run("doctor", "--root", "other/bundles")
    assert verified.returncode == 0, verified.stdout


def test_the_archive_of_a_delta_is_one_tar_that_holds_an_archive_of_its_base(
    stacked: BundleRoot, tmp_path: Path
) -> None:
    delta, base = names_in(stacked)
    done = export_version(stacked, tmp_path / "a.tar")
    assert done.size_bytes == done.path.stat().st_size
    held = listed(done.path.read_bytes())
    of_base = {name.removeprefix(BASE): data for name, data in held.items() if name.startswith(BASE)}
    export_version(stacked, tmp_path / "b.tar", base)
    assert list(of_base.items()) == list(listed((tmp_path / "b.tar").read_bytes()).items())
    export_version(stacked, tmp_path / "c.tar", delta, without_base=True)
    own = {name: data for name, data in held.items() if not name.startswith(BASE)}
    assert own == listed((tmp_path / "c.tar").read_bytes())
    other = elsewhere(tmp_path / "other")
    import_version(done.path, other)
    moved = export_version(BundleRoot(other.bundle.root), tmp_path / "d.tar")
    assert moved.path.read_bytes() == done.path.read_bytes()


def test_a_base_that_is_there_is_taken_whether_the_archive_holds_it(
    run: Run, stacked: BundleRoot, tmp_path: Path
) -> None:
    delta, base = names_in(stacked)
    assert run("export", base, "base.tar", "--root", stacked.path).returncode == 0
    done = run("export", "app.tar", "--without-base", "--root", stacked.path)
    assert f"without its base {base}" in " ".join(done.stderr.split())
    export_version(stacked, tmp_path / "cwd/whole.tar")
    for archive, home in (("app.tar", "one"), ("whole.tar", "two")):
        assert run("import", "base.tar", "--root", f"{home}/bundles").returncode == 0
        done = run("import", archive, "--root", f"{home}/bundles")
        assert done.returncode == 0, done.stderr
        assert "with its base" not in " ".join(done.stderr.split())
        assert BundleRoot(tmp_path / "cwd" / home / "bundles").read_current().version == delta
    done = run("rollback", "--root", "one/bundles")
    assert done.returncode == 0, done.stderr
    done = run("import", "app.tar", "--root", "one/bundles")
    assert "it is current now" in " ".join(done.stderr.split())


def test_without_its_base_anywhere_a_delta_is_refused(run: Run, stacked: BundleRoot, tmp_path: Path) -> None:
    export_version(stacked, tmp_path / "cwd/app.tar", without_base=True)
    done = run("import", "app.tar", "--root", "other/bundles")
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"a delta version over {names_in(stacked)[1]}, which did not come with it" in said
    assert "export again without --without-base" in said
    assert not BundleRoot(tmp_path / "cwd/other/bundles").current.exists()
    assert list(BundleRoot(tmp_path / "cwd/other/bundles").path.glob("versions/*")) == []


def damage(file: Path) -> None:
    """Change a byte, in a file of its own."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)


def remove_a_file(base: Path) -> None:
    (base / "open.sql").unlink()


def flip_a_byte(base: Path) -> None:
    damage(base / "catalog.duckdb")


def put_another_version(base: Path) -> None:
    manifest = base / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"\n", b"\r\n", 1))


def make_it_a_link(base: Path) -> None:
    base.rename(base.with_name("aside"))
    base.symlink_to(base.with_name("aside"))


@pytest.mark.parametrize("spoil", [remove_a_file, flip_a_byte, put_another_version, make_it_a_link])
def test_a_base_there_that_is_damaged_or_another_is_refused(
    spoil: Callable[[Path], None], run: Run, stacked: BundleRoot, tmp_path: Path
) -> None:
    """The archive holds a good one, and does not take the place of what somebody has to look at."""
    _, base = names_in(stacked)
    export_version(stacked, tmp_path / "base.tar", base)
    export_version(stacked, tmp_path / "app.tar")
    root = BundleRoot(tmp_path / "other/bundles")
    import_version(tmp_path / "base.tar", elsewhere(tmp_path / "other"))
    spoil(root.version(base).path)
    before = root.current.read_bytes()
    done = run("import", tmp_path / "app.tar", "--root", root.path)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"version {base} is there already" in said
    assert "damaged" in said or "with other contents" in said
    assert root.current.read_bytes() == before
    assert root.version_names() == [base]


def test_a_damaged_base_is_not_exported(run: Run, stacked: BundleRoot, tmp_path: Path) -> None:
    delta, base = names_in(stacked)
    root = BundleRoot(tmp_path / "bundles")
    shutil.copytree(stacked.path, root.path)
    damage(root.version(base).path / "catalog.duckdb")
    done = run("export", "app.tar", "--root", root.path)
    assert done.returncode != 0
    assert f"version {base} differs from its manifest: catalog.duckdb" in " ".join(done.stderr.split())
    remove_a_file(root.version(base).path)
    done = run("export", delta, "app.tar", "--without-base", "--root", root.path)
    assert f"the base of {delta} is damaged" in " ".join(done.stderr.split())
    assert not (tmp_path / "cwd/app.tar").exists()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("base manifest", "checksum|manifest.json"),
        ("base file", "is damaged in the archive"),
        ("own file", "is damaged in the archive"),
    ],
)
def test_an_archive_that_is_damaged_anywhere_leaves_nothing(
    place: str, said: str, stacked: BundleRoot, tmp_path: Path
) -> None:
    file = tmp_path / "app.tar"
    done = export_version(stacked, file)
    assert done.base is not None
    data = bytearray(file.read_bytes())
    sought = {
        "base manifest": f'"version": "{done.base.version}"'.encode(),
        "base file": stacked.version(done.base.version).catalog.read_bytes()[4096:4160],
        "own file": stacked.version(done.manifest.version).catalog.read_bytes()[8192:9216],
    }[place]
    start = data.rindex(sought)
    data[start + len(sought) // 2] ^= 1
    file.write_bytes(data)
    settings = elsewhere(tmp_path / "other")
    with pytest.raises((IntegrityError, PublishError), match=said):
        import_version(file, settings)
    root = BundleRoot(settings.bundle.root)
    assert not root.current.exists()
    assert list(root.path.glob("versions/*")) == []


def test_a_base_of_another_digest_in_the_archive_is_refused(stacked: BundleRoot, tmp_path: Path) -> None:
    """What the archive names as base is whole and honest, and not what the delta was made over."""
    done = export_version(stacked, tmp_path / "app.tar")
    assert done.base is not None
    data = (tmp_path / "app.tar").read_bytes()
    raw = stacked.version(done.base.version).manifest.read_bytes()
    own = stacked.version(done.manifest.version).manifest.read_bytes()
    start = len(member("manifest.json", own))
    assert data[start:].startswith(member(f"{BASE}manifest.json", raw))
    rest = data[start + len(member(f"{BASE}manifest.json", raw)) :]
    (tmp_path / "forged.tar").write_bytes(data[:start] + member(f"{BASE}manifest.json", own) + rest)
    with pytest.raises(IntegrityError, match=f"as base, expected {done.base.version}"):
        import_version(tmp_path / "forged.tar", elsewhere(tmp_path / "other"))


@pytest.mark.parametrize("cut", [1, 600, -1])
def test_an_archive_of_another_length_is_refused(cut: int, stacked: BundleRoot, tmp_path: Path) -> None:
    done = export_version(stacked, tmp_path / "app.tar")
    data = done.path.read_bytes()
    done.path.write_bytes(data[:-cut] if cut > 0 else data + b"\0")
    with pytest.raises(IntegrityError, match=r"has [\d,]+ bytes, expected"):
        import_version(done.path, elsewhere(tmp_path / "other"))


def test_a_publish_that_fails_takes_the_base_back(
    stacked: BundleRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = export_version(stacked, tmp_path / "app.tar")
    settings = elsewhere(tmp_path / "other")
    publish = arrival.publish_staged

    def refuse(*arguments: object, becomes_current: bool) -> object:
        if becomes_current:
            raise PublishError("the disk refuses", suggestion="")
        return publish(*arguments, becomes_current=becomes_current)  # type: ignore[arg-type]

    monkeypatch.setattr(arrival, "publish_staged", refuse)
    with pytest.raises(PublishError, match="the disk refuses"):
        import_version(done.path, settings)
    root = BundleRoot(settings.bundle.root)
    assert root.version_names() == []
    assert list(root.path.glob("versions/*")) == []
    assert not root.provenance(names_in(stacked)[1]).exists()
    monkeypatch.undo()
    assert import_version(done.path, settings).done == "published"


def test_a_kept_current_version_stays_and_the_delta_can_be_rolled_to(stacked: BundleRoot, tmp_path: Path) -> None:
    delta, base = names_in(stacked)
    settings = elsewhere(tmp_path / "other")
    export_version(stacked, tmp_path / "base.tar", base)
    import_version(tmp_path / "base.tar", settings)
    export_version(stacked, tmp_path / "app.tar", delta)
    done = import_version(tmp_path / "app.tar", settings, keep_current=True)
    root = BundleRoot(settings.bundle.root)
    assert (done.done, root.read_current().version) == ("added", base)
    with pytest.raises(CodequarryError):
        import_version(tmp_path / "app.tar", elsewhere(tmp_path / "empty"), keep_current=True)
