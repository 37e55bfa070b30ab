"""Which settings file counts, what it may ask for, and where it is looked for."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from codequarry.schemas.errors import SettingsError, SourceError, UnavailableError, UntrustedError
from codequarry.schemas.settings.load import SETTINGS_FILE, load_settings
from codequarry.schemas.trust.trusted_folders import add_trust, is_trusted, remove_trust, trust_file, trusted_folders
from tests.pipelines.repositories import commit, git

ASKING = '[embedding]\nmodel = "m"\nendpoint = "http://127.0.0.1:9/v1"\n'


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "device", "link to a pipe", "dangling link"])
@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_and_never_waited_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(SETTINGS_FILE)
    if kind == "folder":
        file.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(file))
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        if kind == "link to a pipe":
            os.mkfifo("pipe")
        file.symlink_to("pipe")
    with pytest.raises((SettingsError, UntrustedError)) as caught:
        load_settings(env={})
    assert SETTINGS_FILE in caught.value.message
    with pytest.raises(SettingsError):
        load_settings(file, env={})


def test_a_file_of_endless_bytes_is_refused() -> None:
    Path(SETTINGS_FILE).write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(SettingsError, match="larger than"):
        load_settings(env={})


def test_a_file_that_lies_there_names_no_server_until_it_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / "clone" / SETTINGS_FILE
    file.write_text(ASKING)
    with pytest.raises(UntrustedError) as caught:
        load_settings(env={})
    assert "embedding.endpoint" in caught.value.message
    assert "codequarry trust" in caught.value.suggestion
    assert load_settings(file, env={}).embedding.endpoint, "a file that is named is trusted"
    add_trust(file.parent, file.read_bytes())
    assert load_settings(env={}).embedding.endpoint
    file.write_text(ASKING + "# changed\n")
    with pytest.raises(UntrustedError):
        load_settings(env={})
    file.write_text(ASKING)
    assert remove_trust(file.parent)
    with pytest.raises(UntrustedError):
        load_settings(env={})


def test_harmless_settings_need_no_trust_and_the_environment_is_the_users() -> None:
    Path(SETTINGS_FILE).write_text('[chunking]\nmax_chars = 900\n[bundle]\nroot = "out"\n')
    env = {"CODEQUARRY__EMBEDDING__ENDPOINT": "http://127.0.0.1:9/v1", "CODEQUARRY__EMBEDDING__MODEL": "m"}
    settings = load_settings(env=env)
    assert (settings.chunking.max_chars, settings.embedding.endpoint) == (900, "http://127.0.0.1:9/v1")


def test_a_file_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text("")
    Path(SETTINGS_FILE).symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(UntrustedError):
        load_settings(env={})
    assert load_settings(Path(SETTINGS_FILE), env={}).bundle.root == tmp_path / ".codequarry" / "bundles"


def test_decisions_are_private_and_a_list_that_others_may_write_is_refused(tmp_path: Path) -> None:
    add_trust(tmp_path, b"x")
    assert stat.S_IMODE(trust_file().stat().st_mode) == 0o600
    assert is_trusted(tmp_path, b"x")
    assert not is_trusted(tmp_path, b"y")
    assert list(trusted_folders()) == [str(tmp_path)]
    assert os.listdir(trust_file().parent) == [trust_file().name]
    trust_file().chmod(0o666)
    with pytest.raises(UnavailableError):
        is_trusted(tmp_path, b"x")


@pytest.mark.parametrize(
    "link", [".codequarry", ".codequarry/bundles", ".codequarry/store", ".codequarry/bundles/versions"]
)
def test_state_that_is_a_link_out_of_itself_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    Path(link).parent.mkdir(parents=True, exist_ok=True)
    Path(link).symlink_to(tmp_path / "elsewhere")
    for given in (None, Path(".codequarry/bundles")):
        with pytest.raises(UntrustedError) as caught:
            load_settings(env={}, bundle_root=given)
        assert link in caught.value.message


def test_links_inside_of_the_state_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "clone" / ".codequarry" / "large").mkdir(parents=True)
    Path(".codequarry/store").symlink_to("large")
    assert load_settings(env={}).paths.store == tmp_path / "clone" / ".codequarry" / "large"


def test_state_that_git_tracks_is_refused_wherever_it_is_named(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    commit(clone, {"a.py": "x\n", ".codequarry/store/x": "x\n"})
    for given in (None, Path(".codequarry/bundles")):
        with pytest.raises(UntrustedError) as caught:
            load_settings(env={}, bundle_root=given)
        assert ".codequarry/store/x" in caught.value.message
    assert load_settings(env={}, bundle_root=tmp_path / "own", look="up").bundle.root == tmp_path / "own"
    git(clone, "rm", "-rq", ".codequarry")
    assert load_settings(env={})
    (clone / ".git" / "index").write_bytes(b"no index")
    with pytest.raises(SourceError):
        load_settings(env={})


def test_a_question_is_about_the_nearest_folder_that_was_indexed(tmp_path: Path, monkeypatch) -> None:
    clone = tmp_path / "clone"
    commit(clone, {"src/deep/a.py": "x\n", "inner/b.py": "x\n"})
    (clone / ".codequarry" / "bundles").mkdir(parents=True)
    monkeypatch.chdir(clone / "src" / "deep")
    root = clone / ".codequarry" / "bundles"
    assert load_settings(env={}, look="up").bundle.root == root
    assert load_settings(env={}).bundle.root == clone / "src" / "deep" / ".codequarry" / "bundles"
    given = load_settings(env={}, look="up", bundle_root=Path("mine"))
    assert given.bundle.root == clone / "src" / "deep" / "mine"
    git(clone / "inner", "init", "--quiet")
    monkeypatch.chdir(clone / "inner")
    assert load_settings(env={}, look="up").bundle.root == clone / "inner" / ".codequarry" / "bundles"


def test_the_search_upwards_ends_at_home_and_below_what_everybody_may_write(tmp_path: Path, monkeypatch) -> None:
    below = tmp_path / "clone" / "home" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "clone" / ".codequarry" / "bundles").mkdir(parents=True)
    monkeypatch.chdir(below)
    root = tmp_path / "clone" / ".codequarry" / "bundles"
    assert load_settings(env={}, look="up").bundle.root == root
    monkeypatch.setenv("HOME", str(below.parent))
    assert load_settings(env={}, look="up").bundle.root == below / ".codequarry" / "bundles"
    monkeypatch.setenv("HOME", "/")
    (tmp_path / "clone").chmod(0o777)
    assert load_settings(env={}, look="up").bundle.root == below / ".codequarry" / "bundles"


def test_what_belongs_to_another_user_is_only_used_when_it_is_named(tmp_path: Path, monkeypatch) -> None:
    root = tmp_path / "clone" / ".codequarry" / "bundles"
    below = tmp_path / "clone" / "deep"
    root.mkdir(parents=True)
    below.mkdir()
    monkeypatch.chdir(below)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UntrustedError):
        load_settings(env={}, look="up")
    assert load_settings(env={}, look="up", bundle_root=root).bundle.root == root


def test_state_found_above_is_checked_as_that_of_the_folder(tmp_path: Path, monkeypatch) -> None:
    clone = tmp_path / "clone"
    commit(clone, {"src/a.py": "x\n", ".codequarry/bundles/CURRENT": "x\n"})
    monkeypatch.chdir(clone / "src")
    with pytest.raises(UntrustedError):
        load_settings(env={}, look="up")
