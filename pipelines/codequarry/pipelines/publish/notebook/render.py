"""The page of the operator's notebook: when it is made, in which process, and where it lies."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from codequarry.pipelines.gates.answers.verdict import remove_old_verdicts
from codequarry.pipelines.publish.notebook.page import count_pictures, mark, page_of
from codequarry.pipelines.store.processes import start_group, stop_group
from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import BusyError, CodequarryError, InvalidArgumentError, NotFoundError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import ENV_PREFIX, Settings
from codequarry.serving.files.integrity import file_sha256

PAGE = "notebook.html"
_NEEDED = ("nbclient", "nbformat", "ipykernel", "mistune")
_LOG_CHARS = 400


@dataclass(frozen=True, slots=True)
class NotebookPage:
    """A notebook, executed over a version."""

    path: Path
    """The page."""
    version: str
    pictures: int
    executed: bool
    """False when the page was there: of this notebook, and of this version."""

    @property
    def sha256(self) -> str:
        """Digest of the page."""
        return file_sha256(self.path)


def render_notebook(settings: Settings) -> NotebookPage:
    """Execute the notebook of the settings over CURRENT, and write it as one HTML page beside the verdict of CURRENT.

    Pictures are inside of the page, which fetches nothing and runs no script. While notebook and version are those of
    the page, nothing is executed. A notebook that fails is an error of its own: the version stays published.

    Args:
        settings: Settings with the notebook, its longest time, and the bundle.

    Returns:
        The page.

    Raises:
        InvalidArgumentError: The settings name no notebook.
        NotFoundError: The notebook is not there.
        MissingExtraError: The extra `notebook` is not installed.
        UnavailableError: The notebook fails, takes too long, or the page cannot be written.
        BusyError: Another version became CURRENT meanwhile.
    """
    notebook, root = _notebook(settings), BundleRoot(settings.bundle.root)
    version = root.read_current().version
    page = root.verdicts / version / PAGE
    marks = {"version": version, "sha256": file_sha256(notebook)}
    if page.is_file():
        held = page.read_text(encoding="utf-8")
        if all(mark(name, value) in held for name, value in marks.items()):
            return NotebookPage(page, version, count_pictures(held), False)
    made = _executed(notebook, settings)
    if root.read_current().version != version:
        raise BusyError(
            f"CURRENT is no longer {version}, over which {notebook.name} was executed",
            suggestion="run again: the notebook is then executed over the version that is published",
        )
    text = page_of(made, notebook.stem, {**marks, "executed": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"})
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    remove_old_verdicts(root)
    return NotebookPage(page, version, count_pictures(text), True)


def _notebook(settings: Settings) -> Path:
    notebook = settings.automation.notebook
    if notebook is None:
        raise InvalidArgumentError(
            "the settings name no notebook", suggestion="set [automation] notebook, or reload the code location"
        )
    if not notebook.is_file():
        raise NotFoundError(
            f"[automation] notebook: {notebook} is not there, or is no file",
            suggestion="correct the path, or remove the setting to do without the page",
        )
    for name in _NEEDED:
        if find_spec(name) is None:
            raise missing_extra("[automation] notebook", "notebook", missing=name)
    return notebook


def _executed(notebook: Path, settings: Settings) -> dict[str, object]:
    """Return a notebook with its outputs, executed in an empty folder of a process of its own."""
    import nbformat

    with tempfile.TemporaryDirectory(prefix="codequarry-notebook-", ignore_cleanup_errors=True) as private:
        made, problem, log = (Path(private) / name for name in ("made.ipynb", "problem", "log"))
        work, own = Path(private) / "work", Path(private) / "jupyter"
        work.mkdir()
        own.mkdir()
        command = [sys.executable, "-m", "codequarry.pipelines.publish.notebook.execute"]
        status = _run(
            [*command, *map(str, (notebook, made, problem))], work, log, _environment(settings, own), settings
        )
        if problem.is_file():
            raise _failed(notebook, problem.read_text(encoding="utf-8"))
        if status is None:
            raise _failed(notebook, f"ran longer than [automation] notebook_timeout_s = {_limit(settings):g}")
        if status or not made.is_file():
            last = log.read_text(encoding="utf-8", errors="replace").strip()[-_LOG_CHARS:].splitlines()[-1:]
            raise _failed(notebook, f"could not be executed: {''.join(last) or f'exit status {status}'}")
        return nbformat.read(made, as_version=4)


def _failed(notebook: Path, why: str) -> CodequarryError:
    return UnavailableError(
        f"the notebook {notebook.name} {why}; the version is published, without a page of it",
        suggestion="run it in Jupyter over the same bundle and correct it, then run again; or remove "
        "[automation] notebook",
    )


def _environment(settings: Settings, own: Path) -> dict[str, str]:
    """Return the environment in which `open_catalog()` finds the bundle, and Jupyter nothing of the user's.

    The settings file is not read again: below the notebook nobody named it, so that it might not be trusted.
    """
    places = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    return {
        **os.environ,
        **{name: str(own) for name in places},
        f"{ENV_PREFIX}BUNDLE__ROOT": str(settings.bundle.root),
        f"{ENV_PREFIX}TELEMETRY__FOLDER": str(settings.telemetry.folder),
    }


def _limit(settings: Settings) -> float:
    return settings.automation.notebook_timeout_s


def _run(command: list[str], folder: Path, log: Path, environment: dict[str, str], settings: Settings) -> int | None:
    """Return the exit status; None when it ran out of time. The kernel ends with the process that started it."""
    with log.open("wb") as stream:
        process = start_group(
            lambda: subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                process_group=0,
            )
        )  # fmt: skip
        try:
            return process.wait(_limit(settings))
        except subprocess.TimeoutExpired:
            return None
        finally:
            stop_group(process)
            process.wait()
