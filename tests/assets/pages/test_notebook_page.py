"""The notebook of the settings as an asset: a page beside the verdict of the published version."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import nbformat
import pytest

from codequarry.assets.definitions import build_definitions
from codequarry.pipelines.gates.answers.verdict import verdict_names
from codequarry.pipelines.publish.notebook import render
from codequarry.schemas.errors import UnavailableError, UntrustedError
from codequarry.schemas.settings.load import load_settings
from tests.assets.conftest import Workbench
from tests.assets.test_reindex import failure, materializations

SETTINGS = '[automation]\nnotebook = "{}"\n'
SHOW = """
from IPython.display import SVG, display
from codequarry.serving import open_catalog
catalog = open_catalog()
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0h9v9z"/></svg>'))
catalog.manifest.version, [row[0] for row in catalog.sql("SELECT path FROM files ORDER BY ALL").fetchall()]
"""


@pytest.fixture
def bench(published: Workbench) -> Workbench:
    """A published version, and settings that name a notebook of one picture and one table."""
    configure(published, "# Report\n\n![remote](https://example.org/x.png)", SHOW)
    return published


def configure(bench: Workbench, text: str, *code: str, more: str = "") -> None:
    """Write the notebook, and name it in the settings."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell(text), *map(nbformat.v4.new_code_cell, code)]
    for cell in notebook.cells:
        cell.pop("id", None)
    notebook.nbformat_minor = 4
    nbformat.write(notebook, bench.folder / "report.ipynb")
    bench.configure("beta", "alpha", more=SETTINGS.format("report.ipynb") + more)


def page_of(result: dg.ExecuteInProcessResult) -> tuple[dict[str, object], Path, str]:
    """Metadata, place and text of the page that a run made or kept."""
    metadata = materializations(result)["notebook_page", None]
    path = Path(str(metadata["path"]))
    return metadata, path, path.read_text(encoding="utf-8")


def test_without_a_notebook_in_the_settings_there_is_no_asset(workbench: Workbench) -> None:
    graph = build_definitions(workbench.project).resolve_asset_graph()
    assert dg.AssetKey("notebook_page") not in graph.get_all_asset_keys()


def test_it_stands_behind_what_is_published_and_says_what_its_function_says(bench: Workbench) -> None:
    node = build_definitions(bench.project).resolve_asset_graph().get(dg.AssetKey("notebook_page"))
    assert node.parent_keys == {dg.AssetKey("published_bundle")}
    assert node.group_name == "analysis"
    documented = inspect.getdoc(render.render_notebook) or ""
    assert (node.description or "").split("\n\n") == documented.split("\n\n")[:2]


@pytest.mark.slow
def test_a_run_keeps_one_page_that_needs_no_network_and_executes_nothing_again(bench: Workbench) -> None:
    first = bench.materialize("notebook_page")
    assert first.success
    metadata, path, page = page_of(first)
    version = bench.manifest.version
    assert path == bench.root.verdicts / version / "notebook.html"
    assert metadata["page"] == path.as_uri()
    assert (metadata["version"], metadata["pictures"], metadata["executed"]) == (version, 1, True)
    assert isinstance(metadata["seconds"], float)
    assert "alpha.py" in page
    assert page.count(version) > 2, "in the head, on top, and in the output"
    assert "data:image/svg+xml;base64," in page
    assert re.findall(r"<(?:script|link|iframe|object)\b", page) == []
    assert re.findall(r"<[^>]*\b(?:src|href)=[^>]*https?:[^>]*>", page) == []
    assert "https:" not in page, "the picture of the text is left out"
    assert [each.name for each in path.parent.iterdir() if each.name.startswith(".")] == []

    before = path.stat().st_mtime_ns
    again, _, kept = page_of(bench.materialize("notebook_page"))
    assert (again["executed"], again["pictures"], kept) == (False, 1, page)
    assert path.stat().st_mtime_ns == before

    bench.write("alpha/more.py", "def more():\n    return 1\n")
    changed, other, page = page_of(bench.reindex())
    assert changed["executed"]
    assert other.parent.name == bench.manifest.version != version
    assert "more.py" in page

    configure(bench, "# Another one")
    edited, same, page = page_of(bench.materialize("notebook_page"))
    assert (edited["executed"], edited["pictures"], same) == (True, 0, other)
    assert "Another one" in page


@pytest.mark.slow
def test_a_notebook_that_fails_is_an_error_of_its_own(bench: Workbench) -> None:
    configure(bench, "# Broken", "1", "def f():\n    return 1 / 0", "f()")
    bench.write("alpha/more.py", "def more():\n    return 1\n")
    before = bench.manifest.version
    result = bench.reindex()
    step, why = failure(result)
    assert not result.success
    assert step == "notebook_page"
    assert "code cell 3 of 3: ZeroDivisionError: division by zero" in why
    assert "correct it" in why
    assert bench.manifest.version != before, "published all the same"
    assert ("coverage_report", None) in materializations(result)
    assert not (bench.root.verdicts / bench.manifest.version / "notebook.html").exists()


@pytest.mark.parametrize(
    ("code", "more", "said"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "", "its kernel died"),
        ("import time\ntime.sleep(600)", "notebook_timeout_s = 3\n", "longer than [automation] notebook_timeout_s"),
    ],
)
def test_a_kernel_that_dies_or_takes_too_long_is_named(bench: Workbench, code: str, more: str, said: str) -> None:
    configure(bench, "# Broken", code, more=more)
    _, why = failure(bench.materialize("notebook_page"))
    assert said in why
    assert "correct it" in why


def test_what_is_missing_is_said_before_anything_is_executed(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(render, "find_spec", lambda name: None if name == "nbclient" else object())
        step, why = failure(bench.materialize("notebook_page"))
    assert step == "notebook_page"
    assert "codequarry[notebook]" in why

    (bench.folder / "report.ipynb").unlink()
    step, why = failure(bench.materialize("notebook_page"))
    assert step == "notebook_page"
    assert "report.ipynb is not there" in why


@pytest.mark.slow
@pytest.mark.parametrize("text", ["import this", "{}", "[]"])
def test_what_is_no_notebook_is_said(bench: Workbench, text: str) -> None:
    (bench.folder / "report.ipynb").write_text(text)
    with pytest.raises(UnavailableError, match="cannot be read as a notebook"):
        render.render_notebook(bench.project.settings())


def test_settings_that_merely_lie_there_run_no_notebook(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    project = bench.project.model_copy(update={"named": False})
    monkeypatch.chdir(bench.folder)
    with pytest.raises(UntrustedError, match=re.escape("automation.notebook")):
        project.settings()
    monkeypatch.setenv("CODEQUARRY__AUTOMATION__NOTEBOOK", "")
    assert load_settings(bench.folder / "dagster_project.toml").automation.notebook is None


def test_pages_of_notebooks_are_no_verdicts_and_go_with_them(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def executed(*_: object) -> dict[str, object]:
        return {"cells": []}

    monkeypatch.setattr(render, "_executed", executed)
    shutil.rmtree(bench.root.verdicts, ignore_errors=True)
    gone = [f"20200101T00000{second}Z-0123abcd" for second in range(8)]
    for place, name in enumerate(gone):
        (bench.root.verdicts / name).mkdir(parents=True)
        os.utime(bench.root.verdicts / name, (place, place))
    page = render.render_notebook(bench.project.settings())
    assert page.executed
    assert verdict_names(bench.root) == []
    assert {each.name for each in bench.root.verdicts.iterdir()} == {*gone[-5:], page.version}


def test_loading_imports_neither_jupyter_nor_the_page(bench: Workbench) -> None:
    program = (
        "import sys\nfrom codequarry.assets.definitions import definitions\ndefinitions()\n"
        "print([name for name in ('nbclient', 'nbformat', 'mistune') if name in sys.modules])"
    )
    environment = {**os.environ, "CODEQUARRY_SETTINGS": bench.project.settings_file}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
