"""Fixtures that more than one layer's tests use."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def minilm_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported MiniLM encoder; read-only by agreement, copy it before changing anything."""
    from codequarry.pipelines.minilm import export_minilm

    directory = tmp_path_factory.mktemp("encoder") / "minilm"
    export_minilm(directory)
    return directory
