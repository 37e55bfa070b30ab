"""Every notebook runs from its first cell to its last over a real index, and is committed with its pictures."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.serving import open_catalog
from tests.notebooks.outputs import NOTEBOOKS, code_cells, execute, packed, tidy
from tests.serving.catalog.test_session import write_part

PROJECT = Path(__file__).resolve().parents[2]
MAX_BYTES = 300_000
PICTURES = {
    "badly_answered": 3, "candidates": 2, "coverage": 4, "dense_index": 2, "drift": 3, "embeddings": 3, "imports": 3,
    "quality": 4,
}  # fmt: skip
EXPECTED = {
    "badly_answered": ("hybrid", "symbol", "schemas/codequarry"),
    "candidates": ("bm25", "app.py", "pool log"),
    "coverage": ("python", "too_large", "by_scip"),
    "dense_index": ("published", "Flat", "HNSW16"),
    "drift": ("came", "gone.py", "least_similar"),
    "embeddings": ("cosine", "qualified_name"),
    "imports": ("('app', ",),
    "quality": ("NDCG@10", "R@4k", "difference"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two versions, and candidates of a search."""
    folder = tmp_path_factory.mktemp("project")
    settings = first_version(folder)
    code = folder / "app"
    (code / "gone.py").unlink()
    (code / "new.py").write_text("def new():\n    return 1\n")
    index_repositories(settings)
    with open_catalog(settings.bundle.root) as catalog:
        ids = catalog.sql("SELECT chunk_id FROM chunks WHERE path = 'app.py' ORDER BY start_byte").fetchall()
        version = catalog.manifest.version
    (folder / "logs").mkdir()
    known = {"query_id": "q1", "bundle": version}
    both = [{**known, "channel": channel, "chunk_id": ids[0][0]} for channel in ("bm25", "faiss")]
    write_part(settings.telemetry.pool_folder, *both, {**known, "channel": "faiss", "chunk_id": 1})
    return folder


def first_version(folder: Path) -> Settings:
    """A project that is indexed for the first time: some files of its own, and the contracts of this one."""
    code = folder / "app"
    shutil.copytree(PROJECT / "schemas", code / "schemas", ignore=shutil.ignore_patterns("__pycache__"))
    (code / "app.py").write_text('def start():\n    """Begin."""\n    return 1\n\n\ndef stop():\n    return 2\n')
    (code / "gone.py").write_text("def gone():\n    return 1\n")
    (code / "large.py").write_text("x = 1\n" * 20_000)
    (folder / "dagster_project.toml").write_text(
        '[sources]\nrepositories = [{ path = "app" }]\nmax_file_bytes = 60000\n[telemetry]\nfolder = "logs"\n'
    )
    settings = load_settings(folder / "dagster_project.toml", env={})
    index_repositories(settings)
    return settings


def pictures(notebook: dict[str, Any]) -> list[str]:
    """The pictures of a notebook, as base64."""
    found = (output.get("data", {}).get("image/png") for cell in code_cells(notebook) for output in cell["outputs"])
    return [picture for picture in found if picture]


def test_there_are_notebooks_and_each_has_an_expectation() -> None:
    assert {file.stem for file in NOTEBOOKS} == EXPECTED.keys() == PICTURES.keys()


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_committed_as_it_ran_with_pictures_and_without_places_of_a_machine(file: Path) -> None:
    made = json.loads(file.read_text(encoding="utf-8"))
    cells = code_cells(made)
    assert file.stat().st_size < MAX_BYTES
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output["output_type"] for cell in cells for output in cell["outputs"]} == {"execute_result"}
    assert len(pictures(made)) == PICTURES[file.stem]
    texts = json.dumps([output["data"] for cell in cells for output in cell["outputs"]])
    assert (
        re.findall(r"(?<![\w.])/(?:home|root|tmp|usr|var|work|Users)/\w+", re.sub('"image/png": "[^"]*"', "", texts))
        == []
    )
    # Nothing of other repositories: the outputs are of this project's own files.
    assert made == tidy(made)


def test_a_picture_is_packed_without_a_change_of_its_pixels() -> None:
    picture = base64.b64decode(pictures(json.loads(NOTEBOOKS[0].read_text(encoding="utf-8")))[0])
    assert packed(picture) == picture
    assert packed(picture)[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_below_the_folder_of_the_settings(file: Path, project: Path, tmp_path: Path) -> None:
    folder = project / "analysis" / file.stem
    folder.mkdir(parents=True)
    made = execute(file, folder, tmp_path)
    cells = code_cells(made)
    assert {output["output_type"] for cell in cells for output in cell["outputs"]} == {"execute_result"}
    shown = "".join("".join(output["data"]["text/plain"]) for cell in cells for output in cell["outputs"])
    assert [text for text in EXPECTED[file.stem] if text not in shown] == []
    assert len(pictures(made)) == PICTURES[file.stem]
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_notebooks_about_versions_also_run_where_the_first_one_is_all_there_is(tmp_path: Path) -> None:
    first_version(tmp_path / "project")
    (tmp_path / "own").mkdir()
    for name, missing in (("candidates", 0), ("drift", 1), ("quality", 2)):
        (file,) = [file for file in NOTEBOOKS if file.stem == name]
        made = execute(file, tmp_path / "project", tmp_path / "own")
        assert len(pictures(made)) == PICTURES[name] - missing
