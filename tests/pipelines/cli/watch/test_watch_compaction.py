"""A watch builds complete versions over large or old delta versions while nothing changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from codequarry.pipelines.cli.watch.compaction import is_due
from codequarry.pipelines.gates.answers.verdict import verdict_names
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.bundle import BundleSettings
from codequarry.serving.files.integrity import current_manifest
from tests.pipelines.cli.watch.test_watch import watching as watching
from tests.pipelines.cli.watch.watch_process import Watch, append
from tests.pipelines.conftest import run_here
from tests.pipelines.repositories import commit

FILES: dict[str, str | bytes] = {
    f"m{number}.py": f"def pour_{number}(cup):\n    return cup + {number}\n" for number in range(40)
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    commit(folder, FILES)
    return folder


def published(repository: Path) -> Manifest:
    manifest = current_manifest(BundleRoot(repository / ".codequarry" / "bundles"))
    assert manifest is not None
    return manifest


def save(repository: Path, word: str, files: range) -> None:
    for number in files:
        append(repository / f"m{number}.py", f"\n\ndef {word}_{number}():\n    return {number}\n")


def test_a_large_change_is_a_delta_at_once_and_a_complete_version_later(
    repository: Path, watching: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEQUARRY__RETRIEVAL__ENABLED", "true")
    watch = watching()
    first = watch.current
    save(repository, "wombat", range(4))
    watch.wait_until_found("wombat_3")
    stack = published(repository).stack
    assert stack is not None
    assert stack.base == first
    saved = published(repository).version
    assert "one complete version of" in watch.wait_for("complete version")
    complete = published(repository)
    assert complete.stack is None
    compared = verdict_names(BundleRoot(repository / ".codequarry" / "bundles"))
    assert saved not in compared  # nobody who saves waits for it
    assert complete.version in compared
    assert watch.finds("wombat_0")
    save(repository, "quokka", range(1))
    watch.wait_until_found("quokka_0")
    stack = published(repository).stack
    assert stack is not None
    assert stack.base == complete.version


def test_a_save_ends_a_complete_version_that_is_being_built(repository: Path, watching: Callable[..., Watch]) -> None:
    watch = watching()
    base = watch.current
    save(repository, "wombat", range(4))
    watch.wait_until_found("wombat_3")
    kept = repository / ".codequarry" / "work" / "base" / "repositories" / "app"
    while not kept.exists():  # the run is at work
        assert watch.process.poll() is None
    save(repository, "quokka", range(1))
    watch.wait_until_found("quokka_0")
    stack = published(repository).stack
    assert stack is None or stack.base == base  # None: the run had ended just before
    watch.wait_for("one complete version of")
    assert published(repository).stack is None
    assert watch.finds("quokka_0")


def version_name(age: timedelta) -> str:
    return f"{datetime.now(UTC) - age:%Y%m%dT%H%M%SZ}-{'a' * 8}"


def test_a_delta_over_an_old_base_is_due_however_small(repository: Path, shared_store: Path) -> None:
    environment = {**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store)}
    assert run_here(repository, environment, "index").returncode == 0
    assert not is_due(published(repository), BundleSettings())
    save(repository, "wombat", range(1))
    assert run_here(repository, environment, "index", "--delta").returncode == 0
    small = published(repository)
    assert small.stack is not None
    assert not is_due(small, BundleSettings())
    assert is_due(small, BundleSettings(delta_share=0.001))
    old = small.stack.model_copy(update={"base": version_name(timedelta(hours=25))})
    aged = small.model_copy(update={"stack": old})
    assert is_due(aged, BundleSettings())
    assert not is_due(aged, BundleSettings(delta_hours=0.0))
