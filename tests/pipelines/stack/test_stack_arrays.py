"""A base and a delta over it hold the places that a complete version of the same sources holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.load import Settings
from codequarry.serving.catalog.chunk_arrays import RowIndex, Strings
from codequarry.serving.version.file_checks import check_version
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.corpus import write_tools
from tests.pipelines.repositories import commit, git
from tests.pipelines.stack.readings import live_files, modules, read_places

APP: dict[str, str | bytes] = {
    "app/__init__.py": "from app.store import Store\n",
    "app/store.py": "class Store:\n    def load(self, key):\n        return self.keys[key]\n\n\n"
    "def open_store(path):\n    return Store()\n",
    "app/view.py": "from app.store import Store, open_store\n\n\n"
    "def render(path):\n    store = open_store(path)\n    return paint(store.load('a'))\n",
    "app/paint.py": "def paint(text):\n    return frame(text)\n\n\ndef frame(text):\n    return text\n",
    "app/logo.png": b"\x89PNG\r\n",
    "web/index.ts": "import { draw } from './draw';\nexport function start() { return draw(); }\n",
    "web/draw.ts": "export function draw() { return 1; }\n",
    "lib/Thing.java": "package lib;\n\npublic class Thing { public void load() {} }\n",
    "lib/Use.java": "package lib;\n\nimport lib.*;\n\npublic class Use { Thing thing; void run() { thing.load(); } }\n",
    "README.md": "# App\n\nText.\n",
}


def edit(repo: Path) -> None:
    (repo / "app/store.py").write_text(
        "class Store:\n    def load(self, key):\n        return fetch(key)\n\n\n"
        "def fetch(key):\n    return render(key)\n"
    )


def edit_of_what_others_named(repo: Path) -> None:
    """``paint`` was a name of nobody's, and ``frame`` is one no more."""
    (repo / "app/paint.py").write_text("def colour(text):\n    return text\n")


def definition_of_what_others_name(repo: Path) -> None:
    (repo / "app/keys.py").write_text("def keys(a):\n    return a\n\n\ndef text(b):\n    return start(b)\n")


def rename(repo: Path) -> None:
    git(repo, "mv", "app/paint.py", "app/brush.py")
    commit(repo, {})


def deletion(repo: Path) -> None:
    (repo / "web/draw.ts").unlink()
    commit(repo, {})


def move_of_java(repo: Path) -> None:
    commit(repo, {"lib/Use.java": str(APP["lib/Use.java"]).replace("run()", "go(Store store)")})


def several(repo: Path) -> None:
    edit(repo)
    deletion(repo)
    rename(repo)
    commit(repo, {"docs/a.md": "# A\n\nSee `render`.\n", "app/logo.png": b"\x89PNG\r\n\0\0"})


CHANGES = [edit, edit_of_what_others_named, definition_of_what_others_name, rename, deletion, move_of_java, several]


def wide(settings: Settings) -> Settings:
    """Settings with which any share of changes makes a delta version."""
    return settings.model_copy(update={"bundle": settings.bundle.model_copy(update={"delta_share": 1.0})})


def stacked(settings: Settings) -> IndexReport:
    """A delta version of the settings' sources."""
    report = index_changes(settings)
    assert isinstance(report, IndexReport), report
    return report


@pytest.mark.parametrize("change", CHANGES)
def test_both_together_are_what_a_complete_version_is(
    change: Callable[[Path], None], tmp_path: Path, make_settings: MakeSettings
) -> None:
    repo = tmp_path / "app"
    commit(repo, APP)
    tools = write_tools(tmp_path)
    settings = wide(make_settings(repo, tools))
    index_repositories(settings)
    change(repo)
    over = stacked(settings)
    full = index_repositories(make_settings(repo, tools, home=tmp_path / "full"))
    paths, whole = BundlePaths(over.path), BundlePaths(full.path)
    assert over.manifest.stack is not None and over.manifest.stack.files < full.manifest.counts.files
    assert over.manifest.sources == full.manifest.sources
    assert over.manifest.counts == full.manifest.counts
    assert live_files(paths, over.manifest) == live_files(whole, full.manifest)
    assert read_places(paths, over.manifest) == read_places(whole, full.manifest)
    own, all_modules = modules(paths), modules(whole)
    assert own == {file: all_modules[file] for file in own}
    assert [check for check in check_version(paths, over.manifest) if not check.passed] == []
    assert index_repositories(settings).unchanged


def test_strings_have_the_numbers_of_the_base(tmp_path: Path, make_settings: MakeSettings) -> None:
    repo = tmp_path / "app"
    commit(repo, APP)
    settings = wide(make_settings(repo))
    base = BundlePaths(index_repositories(settings).path)
    edit(repo)
    paths = BundlePaths(stacked(settings).path)
    own, theirs = (
        list(Strings(each.strings, each.string_starts)) for each in map(RowIndex.open, (paths.rows, base.rows))
    )
    numbers = np.load(paths.stack / "strings.npy").tolist()
    assert numbers == [theirs.index(text) if text in theirs else -1 for text in own]
