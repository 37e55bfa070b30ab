"""One store for all pipeline tests: the encoder is exported once, and a text is embedded once."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from codequarry.pipelines.cli.root import main
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, RepositorySettings, Settings
from codequarry.schemas.trust.programs import tools_folder

MakeSettings = Callable[..., Settings]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
MAIN = "from codequarry.pipelines.cli.root import main; main()"


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
def real_indexers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's tools folder with the SCIP indexers that CODEQUARRY_SCIP_TOOLS holds."""
    tools = Path(os.environ.get("CODEQUARRY_SCIP_TOOLS") or "missing").absolute()
    if not (tools / "node_modules" / ".bin" / "scip-python").exists():
        pytest.skip("CODEQUARRY_SCIP_TOOLS names no folder with scip-python: real indexers are not exercised")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    tools_folder().parent.mkdir(parents=True)
    tools_folder().symlink_to(tools)
    return tools_folder()


@pytest.fixture
def kept_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store keeps the vectors of static encoders too, as if they took long to make."""
    monkeypatch.setattr("codequarry.pipelines.embed.stage.keeps_vectors", lambda _: True)


@pytest.fixture
def run(tmp_path: Path, shared_store: Path) -> Run:
    """Run the command line in a folder of its own.

    It runs in this process, where the libraries are loaded already. `own_process=True` is for libraries that read the
    environment when they are imported; another program than `MAIN` always has a process of its own.
    """
    folder = tmp_path / "cwd"
    folder.mkdir()

    def run(*arguments: str | Path, program: str = MAIN, own_process: bool = False) -> subprocess.CompletedProcess[str]:
        given = {"CODEQUARRY__PATHS__STORE": str(shared_store), "COLUMNS": "100"}
        if program == MAIN and not own_process:
            return run_here(folder, given, *map(str, arguments))
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=folder, env={**os.environ, **given}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def run_here(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, with folder, environment and streams of its own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["codequarry", *arguments])
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
        except Exception:  # noqa: BLE001 - what nobody caught ends a process with its traceback
            traceback.print_exc()
            code = 1
    code = code if isinstance(code, int) else int(code is not None)
    return subprocess.CompletedProcess(["codequarry", *arguments], code, out.getvalue(), err.getvalue())
