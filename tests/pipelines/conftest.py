"""One store for all pipeline tests: the encoder is exported once, and a text is embedded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codequarry.schemas.settings import BundleSettings, PathsSettings, RepositorySettings, Settings

MakeSettings = Callable[..., Settings]


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def make_settings(tmp_path: Path, shared_store: Path) -> MakeSettings:
    """``make_settings(repository, …, home=…, section={…})``: settings over folders, everything else below ``home``."""

    def make(*repositories: Path, home: Path = tmp_path / "home", **sections: dict[str, object]) -> Settings:
        settings = Settings.model_validate(sections)
        listed = tuple(RepositorySettings(path=path) for path in repositories)
        return settings.model_copy(
            update={
                "paths": PathsSettings(store=shared_store, work=home / "work"),
                "bundle": BundleSettings(root=home / "bundles"),
                "sources": settings.sources.model_copy(update={"repositories": listed}),
            }
        )

    return make
