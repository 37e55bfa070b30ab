"""Every notebook runs from its first cell to its last over a real index, and is committed without output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import load_settings
from codequarry.serving import open_catalog
from tests.serving.catalog.test_session import write_part

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
made = nbformat.read(sys.argv[1], 4)
options = dict(timeout=600, startup_timeout=600, resources={"metadata": {"path": sys.argv[2]}})
NotebookClient(made, kernel_name="python3", **options).execute()
nbformat.write(made, sys.argv[3])
"""
EXPECTED = {
    "coverage": ("python", "too_large", "by_scip"),
    "drift": ("came", "gone.py", "least_similar"),
    "candidates": ("bm25", "app.py", "best_rank"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two versions, and candidates of a search."""
    folder = tmp_path_factory.mktemp("project")
    code = folder / "app"
    code.mkdir()
    (code / "app.py").write_text('def start():\n    """Begin."""\n    return 1\n\n\ndef stop():\n    return 2\n')
    (code / "gone.py").write_text("def gone():\n    return 1\n")
    (code / "large.py").write_text("x = 1\n" * 2_000)
    (folder / "dagster_project.toml").write_text(
        '[sources]\nrepositories = [{ path = "app" }]\nmax_file_bytes = 2000\n[telemetry]\nfolder = "logs"\n'
    )
    settings = load_settings(folder / "dagster_project.toml", env={})
    index_repositories(settings)
    (code / "gone.py").unlink()
    (code / "new.py").write_text("def new():\n    return 1\n")
    index_repositories(settings)
    with open_catalog(settings.bundle.root) as catalog:
        ids = [one for (one,) in catalog.sql("SELECT chunk_id FROM chunks ORDER BY path").fetchall()]
        version = catalog.manifest.version
    (folder / "logs").mkdir()
    known = {"query_id": "q1", "bundle": version}
    both = [{**known, "channel": channel, "chunk_id": ids[0]} for channel in ("bm25", "faiss")]
    write_part(settings.telemetry.pool_folder, *both, {**known, "channel": "faiss", "chunk_id": 1})
    return folder


def test_there_are_notebooks_and_each_has_an_expectation() -> None:
    assert {file.stem for file in NOTEBOOKS} == EXPECTED.keys()


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_are_committed_without_output(file: Path) -> None:
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_below_the_folder_of_the_settings(file: Path, project: Path, tmp_path: Path) -> None:
    folder, written = project / "analysis" / file.stem, tmp_path / "executed.ipynb"
    folder.mkdir(parents=True)
    own = {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, str(file), str(folder), str(written)],
        env={**os.environ, **own, "JUPYTER_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    cells = [cell for cell in json.loads(written.read_text())["cells"] if cell["cell_type"] == "code"]
    assert {output["output_type"] for cell in cells for output in cell["outputs"]} == {"execute_result"}
    shown = "".join("".join(output["data"]["text/plain"]) for cell in cells for output in cell["outputs"])
    assert [text for text in EXPECTED[file.stem] if text not in shown] == []
    assert not list(folder.iterdir())
