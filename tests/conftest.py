"""Fixtures that more than one layer's tests use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("codequarry", deadline=None)
hypothesis.settings.load_profile("codequarry")

# Asking every version that some test builds would take as long as building it; tests of the gate ask.
os.environ["CODEQUARRY__RETRIEVAL__ENABLED"] = "false"


@pytest.fixture(scope="session", autouse=True)
def compiled_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scanner for secrets compiles its rules once for all stores of a session, in this process and in others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KF_RULE_CACHE_DIR", str(tmp_path_factory.mktemp("rules")))
        yield


@pytest.fixture(scope="session")
def minilm_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported MiniLM encoder; read-only by agreement, copy it before changing anything."""
    from codequarry.pipelines.minilm import export_minilm

    directory = tmp_path_factory.mktemp("encoder") / "minilm"
    export_minilm(directory)
    return directory


@pytest.fixture(scope="session")
def token_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported token encoder; read-only by agreement, copy it before changing anything."""
    from codequarry.pipelines.minilm_tokens import export_minilm_tokens

    directory = tmp_path_factory.mktemp("encoder") / "tokens"
    export_minilm_tokens(directory)
    return directory
