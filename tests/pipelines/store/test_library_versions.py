"""Versions of libraries that others may replace."""

from __future__ import annotations

from importlib import metadata

import pytest

from codequarry.pipelines.store.library_versions import library_version
from codequarry.serving.engine.doctor import _library


@pytest.fixture
def with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """An install in which faiss-gpu is in place of faiss-cpu."""
    real = metadata.distribution

    def mapped(name: str) -> str:
        if name == "faiss-cpu":
            raise metadata.PackageNotFoundError(name)
        return "faiss-cpu" if name == "faiss-gpu" else name

    monkeypatch.setattr(metadata, "distribution", lambda name: real(mapped(name)))


def test_a_replacement_is_named_behind_the_version(with_a_gpu: None) -> None:
    assert library_version("faiss-cpu").endswith(" (faiss-gpu)")
    assert library_version("numpy") == metadata.version("numpy")
    found = _library("faiss-cpu", "error", "install it")
    assert (found.name, found.level) == ("faiss-gpu", "ok")


def test_a_library_without_a_replacement_is_missing() -> None:
    with pytest.raises(metadata.PackageNotFoundError):
        library_version("no-such-library")
