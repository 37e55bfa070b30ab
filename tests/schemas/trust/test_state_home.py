"""The place of a folder's state: beside the code, or in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codequarry.schemas.errors import SettingsError, UntrustedError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.trust import state_home
from codequarry.schemas.trust.state_folders import nearest_home, require_own_state
from codequarry.schemas.trust.state_home import cached_base, is_cached, require_own_cache, state_base


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CODEQUARRY_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "codequarry"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "My app").mkdir()
    return tmp_path / "My app"


@pytest.fixture
def read_only(app: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this process cannot write to, nor to anything in it, whoever runs the test."""
    monkeypatch.setattr(state_home, "can_write", lambda folder: app not in (folder, *folder.parents))
    return app


def test_state_lies_beside_code_that_can_be_written_to(app: Path) -> None:
    assert state_base(app, writing=True) == state_base(app, writing=False) == app


def test_what_cannot_be_written_to_has_a_folder_in_the_cache(read_only: Path, cache: Path) -> None:
    base = state_base(read_only, writing=True)
    assert base == state_base(read_only, writing=False) == cached_base(read_only)
    assert (base.parent, base.name[:7]) == (cache, "My-app-")
    assert is_cached(base / ".codequarry" / "bundles")
    assert not is_cached(read_only / ".codequarry")


def test_the_name_goes_by_the_real_path(read_only: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(read_only)
    (tmp_path / "other").mkdir()
    assert cached_base(tmp_path / "link") == cached_base(read_only)
    assert cached_base(tmp_path / "other" / "My app") != cached_base(read_only)


def test_an_index_that_came_with_a_read_only_folder_answers_until_there_is_one_of_the_user(read_only: Path) -> None:
    (read_only / ".codequarry").mkdir()
    assert state_base(read_only, writing=False) == read_only
    assert state_base(read_only, writing=True) == cached_base(read_only)
    (cached_base(read_only) / ".codequarry").mkdir(parents=True)
    assert state_base(read_only, writing=False) == cached_base(read_only)


def test_a_place_that_the_user_names_holds_the_state_of_all_folders(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEQUARRY_HOME", str(tmp_path / "home"))
    assert state_base(app, writing=True).parent == tmp_path / "home"
    monkeypatch.setenv("CODEQUARRY_HOME", "home")
    with pytest.raises(SettingsError, match="absolute"):
        state_base(app, writing=True)


def test_all_places_of_the_settings_move_and_none_that_is_named(
    read_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(read_only)
    home = cached_base(read_only) / ".codequarry"
    settings = load_settings()
    assert settings.bundle.root == home / "bundles"
    assert (settings.paths.work, settings.paths.store) == (home / "work", home / "store")
    assert settings.telemetry.folder.is_relative_to(home)
    named = load_settings(bundle_root=tmp_path / "elsewhere", env={"CODEQUARRY__PATHS__STORE": "store"})
    assert named.bundle.root == tmp_path / "elsewhere"
    assert named.paths.store == read_only / "store"


def test_it_is_found_from_every_folder_below(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = read_only / "deep" / "down"
    below.mkdir(parents=True)
    assert nearest_home(below, "settings.toml") == below
    (cached_base(read_only) / ".codequarry" / "bundles").mkdir(parents=True)
    assert nearest_home(below, "settings.toml") == read_only
    monkeypatch.chdir(below)
    for look in ("up", "above"):
        assert load_settings(look=look).bundle.root == cached_base(read_only) / ".codequarry" / "bundles"
    assert load_settings().bundle.root == cached_base(below) / ".codequarry" / "bundles"


def test_a_folder_of_the_cache_that_others_may_have_made_is_refused(read_only: Path, tmp_path: Path) -> None:
    base = cached_base(read_only)
    places = [base / ".codequarry" / "bundles"]
    require_own_state(places)  # nothing is there
    base.mkdir(parents=True)
    base.chmod(0o700)
    base.parent.chmod(0o755)
    require_own_state(places)
    for folder, mode in ((base, 0o777), (base, 0o770), (base.parent, 0o1777)):
        before = folder.stat().st_mode
        folder.chmod(mode)
        with pytest.raises(UntrustedError, match="cannot hold"):
            require_own_state(places)
        folder.chmod(before)
    require_own_state(places)
    base.rmdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    base.symlink_to(tmp_path / "mine")
    with pytest.raises(UntrustedError):
        require_own_state(places)


def test_a_folder_of_the_cache_that_is_another_users_is_refused(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = cached_base(read_only)
    base.mkdir(parents=True)
    base.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: base.stat().st_uid + 1)
    with pytest.raises(UntrustedError):
        require_own_cache(base)
