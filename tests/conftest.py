"""Fixtures that more than one layer's tests use."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.machine import folder_in_memory, hidden, hide_linux

if hidden():
    hide_linux()
if (in_memory := folder_in_memory()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", in_memory)
for ignored in (signal.SIGINT, signal.SIGHUP):
    # A suite in the background, or under nohup, has them ignored, and so would every server that a test starts.
    if signal.getsignal(ignored) == signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)
# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("codequarry", deadline=None)
hypothesis.settings.load_profile("codequarry")

_TOPS = {"assets", "conformance", "faults", "models", "notebooks"}
"""Folders whose tests are of the whole."""
_WHOLE = {
    "run",
    "make_settings",
    "library",
    "evaluated",
    "scene",
    "shop",
    "golden",
    "live",
    "server",
    "served",
    "home",
    "minilm_directory",
    "token_directory",
}
"""Fixtures that run commands, build versions, start servers or export models."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test as one of a unit or of the whole; `make test-quick` runs the first kind.

    Files with tests of the whole come first: they take longest, and a process that began one last would work alone.
    """
    long_files: set[Path] = set()
    for item in items:
        top = item.path.relative_to(Path(__file__).parent).parts[0]
        whole = top in _TOPS or _WHOLE & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("slow")
        item.add_marker("integration" if whole else "unit")
        if whole:
            long_files.add(item.path)
    items.sort(key=lambda item: item.path not in long_files)


# Asking every version that some test builds would take as long as building it; tests of the gate ask.
os.environ["CODEQUARRY__RETRIEVAL__ENABLED"] = "false"


@pytest.fixture(scope="session", autouse=True)
def compiled_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scanner for secrets compiles its rules once for all stores of a session, in this process and in others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KF_RULE_CACHE_DIR", str(tmp_path_factory.mktemp("rules")))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders of the user, empty ones: tests neither see nor change what the person who runs them trusts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CONFIG", "DATA", "STATE"):
            patch.setenv(f"XDG_{name}_HOME", str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(scope="session")
def minilm_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported MiniLM encoder; read-only by agreement, copy it before changing anything."""
    from codequarry.pipelines.embed.export.minilm import export_minilm

    directory = tmp_path_factory.mktemp("encoder") / "minilm"
    export_minilm(directory)
    return directory


@pytest.fixture(scope="session")
def token_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported token encoder; read-only by agreement, copy it before changing anything."""
    from codequarry.pipelines.embed.export.minilm_tokens import export_minilm_tokens

    directory = tmp_path_factory.mktemp("encoder") / "tokens"
    export_minilm_tokens(directory)
    return directory
