"""`codequarry push`, `pull` and `follow` over a real object store, with injected faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from codequarry.pipelines.bundle import manifest as building
from codequarry.pipelines.publish.remote import pull as pulling
from codequarry.pipelines.publish.remote import push as pushing
from codequarry.pipelines.publish.remote import store as stores
from codequarry.pipelines.publish.remote.pull import pull_version
from codequarry.pipelines.publish.remote.push import push_version
from codequarry.pipelines.publish.remote.store import RemoteStore
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.manifest import from_json
from codequarry.schemas.errors import (
    CodequarryError,
    IntegrityError,
    InvalidArgumentError,
    NoBundleError,
    NotFoundError,
    RemoteError,
    UnavailableError,
)
from codequarry.schemas.settings.load import Settings
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.publish.remote.servers import BUCKET, FaultyProxy, each_once
from tests.pipelines.publish.remote.servers import proxy as proxy
from tests.pipelines.publish.remote.servers import s3_port as s3_port
from tests.pipelines.publish.test_moving_deltas import alike, elsewhere, names_in, same_files
from tests.pipelines.publish.test_moving_deltas import stacked as stacked
from tests.pipelines.repositories import commit
from tests.pipelines.stack.test_changes import FILES


@pytest.fixture
def url(proxy: FaultyProxy, request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/{abs(hash(request.node.nodeid))}"


@pytest.fixture(params=["s3", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.getfixturevalue("url") if request.param == "s3" else f"file://{tmp_path}/shared/store"


class History:
    """A root with a complete version, and more versions when asked."""

    def __init__(self, settings: Settings, repository: Path) -> None:
        self.settings, self.repository = settings, repository
        self.root = BundleRoot(settings.bundle.root)
        commit(repository, FILES)
        self.names = [index_repositories(settings).manifest.version]

    def save(self, word: str, *, delta: bool = False) -> str:
        """Index a change, and return the name of its version."""
        (self.repository / "saved.py").write_text(f"def saved_{word}():\n    return 1\n")
        if delta:
            report = index_changes(self.settings)
            assert isinstance(report, IndexReport)
        else:
            report = index_repositories(self.settings)
        self.names.append(report.manifest.version)
        return report.manifest.version


@pytest.fixture
def history(tmp_path: Path, make_settings: MakeSettings) -> History:
    settings = make_settings(tmp_path / "app")
    bundle = settings.bundle.model_copy(update={"delta_share": 1.0, "keep_versions": 9})
    return History(settings.model_copy(update={"bundle": bundle}), tmp_path / "app")


def digests(root: BundleRoot, *names: str) -> set[str]:
    return {entry.sha256 for name in names for entry in from_json(root.version(name).manifest.read_bytes()).files}


def test_a_delta_and_its_base_go_there_and_back_and_answer_as_they_did(
    run: Run, stacked: BundleRoot, place: str, tmp_path: Path
) -> None:
    delta, base = names_in(stacked)
    done = run("push", place, "--root", stacked.path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert f"pushed {delta} over {base} to {place}: {len(digests(stacked, delta, base))} objects of" in said
    assert "it is current there" in said
    again = run("push", place, "--root", stacked.path)
    assert "0 objects of 0.00 MB travelled" in " ".join(again.stderr.split())
    done = run("pull", place, "--root", "other/bundles")
    assert done.returncode == 0, done.stderr
    assert f"pulled {delta} over {base}" in " ".join(done.stderr.split())
    other = BundleRoot(tmp_path / "cwd/other/bundles")
    assert other.read_current() == stacked.read_current()
    assert all(same_files(stacked, other, name) for name in (delta, base))
    assert alike(stacked, other) == []
    assert not (other.path / pulling.DOWNLOADS).exists()
    assert f"from {place}" in run("versions", "--root", other.path).stdout
    again = run("pull", place, "--root", other.path)
    assert "0 objects of 0.00 MB travelled; it was here already; nothing had to be done" in " ".join(
        again.stderr.split()
    )


def test_of_a_later_version_only_the_difference_travels(history: History, place: str, tmp_path: Path) -> None:
    store, there = RemoteStore.open(place, create=True), elsewhere(tmp_path / "there")
    push_version(history.root, store)
    pull_version(store, there)
    later = history.save("later", delta=True)
    pushed, pulled = push_version(history.root, store), pull_version(store, there)
    new = digests(history.root, later) - digests(history.root, history.names[0])
    assert pushed.objects == pulled.objects == len(new)
    assert pulled.received_bytes == pushed.sent_bytes
    assert BundleRoot(there.bundle.root).read_current().version == later


def test_an_older_version_does_not_replace_a_newer_one_unless_forced(run: Run, history: History, place: str) -> None:
    old, new = history.names[0], history.save("newer")
    store = RemoteStore.open(place, create=True)
    assert push_version(history.root, store, keep_current=True).current == ""
    assert push_version(history.root, store).is_current
    done = run("push", place, old, "--root", history.root.path)
    assert f"{new} stays current there" in " ".join(done.stderr.split())
    done = run("push", place, old, "--force", "--root", history.root.path)
    assert "it is current there" in " ".join(done.stderr.split())
    named = store.read_current()
    assert named is not None and named.current.version == old


def test_of_versions_of_one_second_the_last_built_is_the_newest(
    history: History, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = building.time_of_build()
    monkeypatch.setattr(building, "time_of_build", lambda: second)
    monkeypatch.setattr(pushing, "_GRACE", timedelta(-1))
    history.save("word_0")
    while history.names[-1] > history.names[-2]:  # each digest decides anew
        history.save(f"word_{len(history.names)}")
    older, newer = history.names[-2:]
    store = RemoteStore.open(place, create=True)
    assert push_version(history.root, store, older).is_current
    assert push_version(history.root, store, newer).is_current
    assert not push_version(history.root, store, older).is_current
    assert push_version(history.root, store, newer, keep=1).removed == (older,)


def test_current_is_replaced_only_by_who_knows_what_it_holds(place: str) -> None:
    store = RemoteStore.open(place, create=True)
    first, second, third = (Current(f"20261121T12000{number}Z-0123abcd", f"{number}" * 64) for number in range(3))
    assert store.replace_current(first, None)
    assert not store.replace_current(second, None)
    known = store.read_current()
    assert known is not None and known.current == first
    assert store.replace_current(second, known)
    assert not store.replace_current(third, known)
    named = store.read_current()
    assert named is not None and named.current == second


def test_of_two_publishers_at_once_the_newer_version_stays_current(
    history: History, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = history.names[0], history.save("newer")
    store, other = RemoteStore.open(place, create=True), RemoteStore.open(place)
    honest, raced = RemoteStore.replace_current, threading.Event()

    def late(self: RemoteStore, line: Current, known: stores.NamedCurrent | None) -> bool:
        if self is store and not raced.is_set():
            raced.set()
            push_version(history.root, other, old)
        return honest(self, line, known)

    monkeypatch.setattr(RemoteStore, "replace_current", late)
    assert push_version(history.root, store, new).is_current
    assert raced.is_set()
    named = store.read_current()
    assert named is not None and named.current.version == new


@pytest.mark.parametrize(
    ("fault", "method", "text"),
    [
        ("503", "PUT", "objects/"), ("drop", "PUT", "objects/"), ("cut upload", "PUT", "objects/"),
        ("lose answer", "PUT", "objects/"), ("503", "HEAD", "objects/"), ("drop", "PUT", "manifest.json"),
        ("lose answer", "PUT", "manifest.json"), ("503", "PUT", "CURRENT"), ("lose answer", "PUT", "CURRENT"),
        ("503", "GET", "objects/"), ("cut answer", "GET", "objects/"), ("drop", "GET", "CURRENT"),
        ("cut answer", "GET", "manifest.json"),
    ],
)  # fmt: skip
def test_a_fault_of_the_connection_that_passes_is_not_noticed(
    stacked: BundleRoot, proxy: FaultyProxy, url: str, tmp_path: Path, fault: str, method: str, text: str
) -> None:
    proxy.choose = each_once(fault, method, text)  # type: ignore[arg-type]
    store, there = RemoteStore.open(url), elsewhere(tmp_path / "there")
    assert push_version(stacked, store).is_current
    pull_version(store, there)
    root = BundleRoot(there.bundle.root)
    assert root.read_current() == stacked.read_current()
    assert all(same_files(stacked, root, name) for name in names_in(stacked))
    assert proxy.count(method, text) > 0


def test_a_cut_answer_goes_on_from_where_it_ended(
    stacked: BundleRoot, proxy: FaultyProxy, url: str, tmp_path: Path
) -> None:
    store, there = RemoteStore.open(url), elsewhere(tmp_path / "there")
    push_version(stacked, store)
    proxy.choose = each_once("cut answer", "GET", "objects/")
    done = pull_version(store, there)
    unique = {entry.sha256: entry.size_bytes for name in names_in(stacked) for entry in _files(stacked, name)}
    assert done.received_bytes == sum(unique.values())


def _files(root: BundleRoot, name: str) -> tuple[object, ...]:
    return from_json(root.version(name).manifest.read_bytes()).files  # type: ignore[return-value]


@pytest.mark.parametrize("text", ["objects/", "manifest.json", "CURRENT"])
def test_a_push_that_fails_leaves_current_and_goes_on_later(
    history: History, proxy: FaultyProxy, url: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(stores, "_MAX_RETRIES", 0)
    store = RemoteStore.open(url)
    push_version(history.root, store)
    before, later = store.read_current(), history.save("later")
    proxy.choose = lambda method, path: "503" if method == "PUT" and text in path and _is_late(path) else ""
    with pytest.raises(RemoteError, match=f"at {url} failed"):
        push_version(history.root, store)
    assert store.read_current() == before
    proxy.choose = lambda _method, _path: ""
    done = push_version(history.root, store)
    assert done.current == later
    assert (done.objects > 0) == (text == "objects/")


def _is_late(path: str) -> bool:
    """Choose half of the objects by their names, so that some are put."""
    return "objects/" not in path or path[-1] in "01234567"


def test_a_pull_that_ends_early_changes_nothing_and_goes_on_later(
    stacked: BundleRoot, proxy: FaultyProxy, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_MAX_RETRIES", 0)
    store, there = RemoteStore.open(url), elsewhere(tmp_path / "there")
    total = push_version(stacked, store).objects
    proxy.choose = lambda method, path: "503" if method == "GET" and "objects/" in path and _is_late(path) else ""
    with pytest.raises(RemoteError):
        pull_version(store, there)
    root = BundleRoot(there.bundle.root)
    assert not root.current.exists()
    assert root.version_names() == []
    received = len(list((root.path / pulling.DOWNLOADS).iterdir()))
    assert received > 0
    proxy.choose = lambda _method, _path: ""
    assert pull_version(store, there).objects < total
    assert root.read_current() == stacked.read_current()


@pytest.mark.parametrize("size", ["same", "short", "long"])
def test_row_33_damaged_bytes_are_refused_with_a_sentence(
    stacked: BundleRoot, tmp_path: Path, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    store, there = RemoteStore.open(f"file://{folder}", create=True), elsewhere(tmp_path / "there")
    push_version(stacked, store)
    victim = max((file for file in folder.rglob("objects/*/*") if file.is_file()), key=lambda file: file.stat().st_size)
    data = victim.read_bytes()
    changed = {"same": b"\0" + data[1:] if data[:1] != b"\0" else b"\1" + data[1:], "short": data[:-1]}
    victim.write_bytes(changed.get(size, data + b"\0"))
    if size == "long":  # its first bytes are whole, and no more are asked for
        pull_version(store, there)
        return
    with pytest.raises(IntegrityError, match=f"expected {len(data):,} and {victim.name[:12]}"):
        pull_version(store, there)
    root = BundleRoot(there.bundle.root)
    assert not root.current.exists()
    assert not list((root.path / pulling.DOWNLOADS).glob(f"{victim.name}*"))
    if size == "short":  # found by its size
        assert push_version(stacked, store).objects == 1
        pull_version(store, there)


def test_a_manifest_that_is_not_the_one_of_current_is_refused(stacked: BundleRoot, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store, there = RemoteStore.open(f"file://{folder}", create=True), elsewhere(tmp_path / "there")
    name = push_version(stacked, store).manifest.version
    manifest = folder / "versions" / name / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"app", b"apq", 1))
    with pytest.raises(IntegrityError, match=f"the manifest of {name} at file://"):
        pull_version(store, there)
    with pytest.raises(IntegrityError, match=f"holds another version {name}"):
        push_version(stacked, store)
    manifest.unlink()
    with pytest.raises(NotFoundError, match="it is not there"):
        pull_version(store, there)
    assert not BundleRoot(there.bundle.root).current.exists()


def test_a_missing_object_is_named_and_put_again(stacked: BundleRoot, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store, there = RemoteStore.open(f"file://{folder}", create=True), elsewhere(tmp_path / "there")
    push_version(stacked, store)
    victim = next(file for file in folder.rglob("objects/*/*") if file.is_file())
    victim.unlink()
    with pytest.raises(NotFoundError, match=victim.name):
        pull_version(store, there)
    assert push_version(stacked, store).objects == 1
    assert pull_version(store, there).imported.done == "published"


def test_a_damaged_file_here_does_not_travel(stacked: BundleRoot, tmp_path: Path) -> None:
    shutil.copytree(stacked.path, tmp_path / "copy")
    root = BundleRoot(tmp_path / "copy")
    (version, _), store = names_in(root), RemoteStore.open(f"file://{tmp_path}/store", create=True)
    file = root.version(version).table("files")
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=r"files\.parquet has sha256"):
        push_version(root, store)
    assert store.read_current() is None


def test_retention_removes_what_no_version_names(
    run: Run, history: History, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RemoteStore.open(place, create=True)
    push_version(history.root, store)
    history.save("two", delta=True)
    push_version(history.root, store)
    history.settings = history.settings.model_copy(
        update={"chunking": history.settings.chunking.model_copy(update={"max_chars": 999})}
    )
    for word in ("three", "four"):
        history.save(word)
        push_version(history.root, store)
    monkeypatch.setattr(pushing, "_GRACE", timedelta(-1))
    before = {each.path for each in store.objects()}
    done = run("push", place, "--keep", "2", "--root", history.root.path)
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stderr.split())
    for name in history.names[:2]:
        assert f"retention removed {name} there" in printed
    assert store.versions() == sorted(history.names[2:])
    kept = {each.path.rpartition("/")[2] for each in store.objects()}
    assert kept == digests(history.root, *history.names[2:])
    assert len(kept) < len(before)
    for name in history.names[2:]:
        assert pull_version(store, elsewhere(tmp_path / name), name).imported.done == "published"


def test_retention_keeps_the_base_of_a_delta_and_what_a_late_list_does_not_show(
    history: History, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RemoteStore.open(place, create=True)
    push_version(history.root, store)
    history.save("two", delta=True)
    history.save("three", delta=True)
    monkeypatch.setattr(pushing, "_GRACE", timedelta(-1))
    with monkeypatch.context() as late:
        late.setattr(RemoteStore, "versions", lambda _self: [])
        push_version(history.root, store, keep=2)
    there = elsewhere(tmp_path / "there")
    assert pull_version(RemoteStore.open(place), there).imported.done == "published"
    assert BundleRoot(there.bundle.root).read_current().version == history.names[-1]


def test_a_follower_pulls_each_version_that_becomes_current(history: History, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/store"
    store = RemoteStore.open(place, create=True)
    command = [sys.executable, "-P", "-m", "codequarry.pipelines.cli", "follow", place, "--every", "0.1"]
    with subprocess.Popen(
        [*command, "--root", "there"], cwd=tmp_path, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "300"},
    ) as follower:  # fmt: skip
        assert follower.stderr is not None
        lines = iter(follower.stderr.readline, "")
        assert any("nothing is current" in line for line in lines)
        push_version(history.root, store)
        assert any(f"pulled {history.names[0]}" in line for line in lines)
        later = history.save("later", delta=True)
        push_version(history.root, store)
        assert any(f"pulled {later} over {history.names[0]}" in line for line in lines)
        assert BundleRoot(tmp_path / "there").read_current() == history.root.read_current()
        (tmp_path / "store" / "CURRENT").write_text("nonsense")
        assert any("holds something else" in line for line in lines)
        follower.terminate()
        assert any("stopped following" in line for line in lines)
        assert follower.wait(60) == 0


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("ftp://x/y", InvalidArgumentError, "is no place in object storage"),
        ("s3://key:hunter2@bucket/x", InvalidArgumentError, "'s3://bucket/x' is no place"),
        ("/some/folder", InvalidArgumentError, "is no place in object storage"),
        ("az://container/x", InvalidArgumentError, "cannot be opened"),
        ("file:///nowhere/at/all", InvalidArgumentError, "cannot be opened"),
    ],
)
def test_what_is_no_place_is_refused_without_its_secrets(
    url: str, error: type[CodequarryError], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(error, match=sentence) as caught:
        RemoteStore.open(url)
    assert "hunter2" not in caught.value.message


def test_wrong_credentials_are_said(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(UnavailableError, match="reading CURRENT at s3://"):
        RemoteStore.open(url).read_current()


def test_where_signatures_are_asked_for_nothing_is_pulled(stacked: BundleRoot, tmp_path: Path) -> None:
    store, there = RemoteStore.open(f"file://{tmp_path}/store", create=True), elsewhere(tmp_path / "there")
    push_version(stacked, store)
    keys = there.archive.model_copy(update={"trusted_keys": ("RWQ",)})
    with pytest.raises(IntegrityError, match="asks for signatures"):
        pull_version(store, there.model_copy(update={"archive": keys}))


def test_without_the_library_the_extra_is_named(run: Run, stacked: BundleRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    done = run("push", "s3://bucket/x", "--root", stacked.path)
    assert done.returncode != 0
    assert "the extra `storage`" in done.stderr


def test_an_empty_place_is_said(place: str, tmp_path: Path) -> None:
    with pytest.raises(NoBundleError, match="nothing is current at"):
        pull_version(RemoteStore.open(place, create=True), elsewhere(tmp_path))


def test_with_a_url_as_root_each_version_is_published_there(run: Run, place: str, tmp_path: Path) -> None:
    home = tmp_path / "cwd"
    commit(home / "app", FILES)
    bundle = f'[bundle]\nroot = "{place}"\ndelta = true\ndelta_share = 1.0\n'
    (home / "dagster_project.toml").write_text(f'[sources]\nrepositories = [{{ path = "app" }}]\n{bundle}')
    refused = run("index")
    assert refused.returncode != 0
    assert "bundle.root" in refused.stderr and "codequarry trust" in refused.stderr
    trusted = ("index", "--settings", "dagster_project.toml")
    done = run(*trusted)
    assert done.returncode == 0, done.stderr
    assert f"to {place}:" in " ".join(done.stderr.split())
    store = RemoteStore.open(place)
    (home / "app" / "saved.py").write_text("def saved():\n    return 1\n")
    assert run(*trusted).returncode == 0
    root = BundleRoot(home / ".codequarry" / "bundles")
    named = store.read_current()
    assert named is not None and named.current == root.read_current()
    assert from_json(store.read_manifest(named.current.version)).stack is not None
    assert "pushed" not in run(*trusted).stderr
