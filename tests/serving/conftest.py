"""Bundles and engines that several modules use. All are read-only: copy a bundle before damaging it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.schemas.settings import ServingSettings
from codequarry.serving.engine import Engine
from tests.serving.bundle_factory import write_bundle
from tests.serving.corpus import COMMITS, PIECES


@pytest.fixture(scope="session")
def bundle_root(tmp_path_factory: pytest.TempPathFactory, minilm_directory: Path) -> Path:
    """A root with one version: both channels, the real encoder."""
    root = tmp_path_factory.mktemp("bundle")
    write_bundle(root, PIECES, encoder=minilm_directory, commits=COMMITS)
    return root


@pytest.fixture(scope="session")
def lexical_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one version whose encoder is not there."""
    root = tmp_path_factory.mktemp("lexical")
    write_bundle(root, PIECES, commits=COMMITS)
    return root


@pytest.fixture(scope="session")
def engine(bundle_root: Path) -> Iterator[Engine]:
    """An engine over `bundle_root`."""
    opened = Engine.open(bundle_root, ServingSettings())
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def lexical_engine(lexical_root: Path) -> Iterator[Engine]:
    """An engine over `lexical_root`: the dense channel is off."""
    opened = Engine.open(lexical_root, ServingSettings())
    yield opened
    opened.close()
