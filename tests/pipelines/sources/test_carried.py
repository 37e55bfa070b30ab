from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.pipelines.sources import carried
from codequarry.pipelines.sources.carried import failed_reading, forget_failure, keep_failure
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.errors import SourceError


def test_a_failure_is_as_old_as_the_first_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, now = RepositoryWork(tmp_path / "app"), 1_000.0
    monkeypatch.setattr(carried.time, "time", lambda: now)
    first = keep_failure(work, SourceError("it is gone", suggestion="bring it back"))
    now += 7_200
    second = keep_failure(work, SourceError("it refuses"))
    assert (first.since, second.since, second.message) == (1_000.0, 1_000.0, "it refuses")
    assert second.hours == 2.0
    assert failed_reading(work) == second
    forget_failure(work)
    assert failed_reading(work) is None
    now += 3_600
    assert keep_failure(work, SourceError("it is gone again")).hours == 0.0


def test_only_a_repository_that_has_a_snapshot_is_carried_forward(tmp_path: Path) -> None:
    work = RepositoryWork(tmp_path / "app")
    never_read = keep_failure(work, SourceError("it is gone", suggestion="bring it back"))
    assert never_read.line() == "app: it is gone; it is left out; bring it back"
    work.snapshot.write_text("{}", encoding="utf-8")
    assert "it is left out" in keep_failure(work, SourceError("it is gone")).line()  # a publish removed its contents
    work.contents.write_bytes(b"")
    assert "its last snapshot goes on, for 0.0 hours now" in keep_failure(work, SourceError("it is gone")).line()
