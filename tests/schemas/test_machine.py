"""What the machine has is asked for by whatever name it has here."""

from __future__ import annotations

import os

import pytest

from codequarry.schemas.resources import available_cores


def test_cores_are_those_of_the_process_or_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert available_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1
