"""One store for all pipeline tests: the encoder is exported once, and a text is embedded once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codequarry.schemas.settings import BundleSettings, PathsSettings, RepositorySettings, Settings

MakeSettings = Callable[..., Settings]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
MAIN = "from codequarry.serving.cli import main; main()"


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def make_settings(tmp_path: Path, shared_store: Path) -> MakeSettings:
    """``make_settings(repository, …, home=…, section={…})``: settings over folders, everything else below ``home``."""

    def make(*repositories: Path, home: Path = tmp_path / "home", **sections: dict[str, object]) -> Settings:
        settings = Settings.model_validate({"retrieval": {"enabled": False}, **sections})
        listed = tuple(RepositorySettings(path=path) for path in repositories)
        return settings.model_copy(
            update={
                "paths": PathsSettings(store=shared_store, work=home / "work"),
                "bundle": BundleSettings(root=home / "bundles"),
                "sources": settings.sources.model_copy(update={"repositories": listed}),
            }
        )

    return make


@pytest.fixture
def run(tmp_path: Path, shared_store: Path) -> Run:
    """Run the command line in a folder of its own."""
    folder = tmp_path / "cwd"
    folder.mkdir()

    def run(*arguments: str | Path, program: str = MAIN) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CODEQUARRY__PATHS__STORE": str(shared_store), "COLUMNS": "100"}
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run
