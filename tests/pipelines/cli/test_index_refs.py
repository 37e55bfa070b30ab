"""``codequarry index`` at several refs, and in linked work trees, as people type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.refs import RefName, list_refs, read_ref
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.conftest import run_here
from tests.pipelines.repositories import commit, git

FILES: dict[str, str | bytes] = {
    f"pkg/mod{number}.py": f"def work{number}(x):\n    return x + {number}\n" for number in range(30)
}
BRANCH_ONLY = "def made_on_the_branch(x):\n    return x\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository on `main` with a branch `feature`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = tmp_path / "app"
    commit(repo, FILES)
    git(repo, "checkout", "-q", "-b", "feature")
    commit(repo, {"pkg/feature.py": BRANCH_ONLY})
    git(repo, "checkout", "-q", "main")
    return repo


def typed(folder: Path, store: Path, *arguments: str) -> tuple[int, str]:
    done = run_here(folder, {"CODEQUARRY__PATHS__STORE": str(store), "COLUMNS": "100"}, *arguments)
    return done.returncode, done.stdout + done.stderr


def test_several_refs_are_indexed_asked_listed_and_left(app: Path, shared_store: Path) -> None:
    code, text = typed(app, shared_store, "index", ".", ".#feature")
    assert code == 0 and "ref app#feature: published" in text and "1 file changed" in text, text
    assert typed(app, shared_store, "grep", "made_on_the_branch")[0] == 1
    assert "pkg/feature.py:1" in typed(app, shared_store, "grep", "made_on_the_branch", "--ref", "feature")[1]
    assert "feature.py" in typed(app, shared_store, "search", "made on the branch", "--ref", "feature")[1]
    assert "ref app#feature" in typed(app, shared_store, "versions")[1]
    assert typed(app, shared_store, "verify", "--deep")[1].count("is whole") == 2
    code, text = typed(app, shared_store, "grep", "made_on_the_branch", "--ref", "nope")
    assert code != 0 and "app#feature" in text
    git(app, "checkout", "-q", "feature")
    (app / "pkg/more.py").write_text(BRANCH_ONLY)
    git(app, "add", "pkg/more.py")  # not `commit`, which adds ignored files too, and so the index itself
    git(app, "commit", "-q", "-m", "more")
    git(app, "checkout", "-q", "main")
    assert "ref app#feature: published" in typed(app, shared_store, "index")[1]
    assert "more.py" in typed(app, shared_store, "grep", "made_on_the_branch", "--ref", "feature")[1]
    code, text = typed(app, shared_store, "index", ".", "--only")
    assert code == 0 and "ref app#feature: dropped: --only leaves it out" in text
    root = BundleRoot(app / ".codequarry/bundles")
    assert list_refs(root) == [] and len(root.version_names()) == 1


def test_the_same_ref_twice_is_refused(app: Path, shared_store: Path) -> None:
    code, text = typed(app, shared_store, "index", ".", ".#main")
    assert code != 0 and "same ref" in text


def test_a_ref_that_is_served_is_no_further_one(app: Path, shared_store: Path) -> None:
    typed(app, shared_store, "index", ".", ".#feature")
    git(app, "checkout", "-q", "feature")
    assert "ref app#feature: dropped: it is what is served" in typed(app, shared_store, "index")[1]
    assert "feature.py" in typed(app, shared_store, "grep", "made_on_the_branch", "--ref", "feature")[1]


@pytest.mark.parametrize("detached", [False, True])
def test_a_linked_work_tree_uses_the_index_of_the_main_one(app: Path, shared_store: Path, *, detached: bool) -> None:
    typed(app, shared_store, "index")
    beside = app.parent / "beside"
    git(app, "worktree", "add", "-q", *(["--detach"] if detached else ["-b", "topic"]), str(beside))
    name = RefName("app", "beside" if detached else "topic")
    (beside / "pkg/unsaved.py").write_text(BRANCH_ONLY)
    code, text = typed(beside, shared_store, "grep", "made_on_the_branch")
    assert code == 1 and f"the working folder is at {name.ref}" in text
    before = BundleRoot(app / ".codequarry/bundles").read_current()
    code, text = typed(beside / "pkg", shared_store, "index")
    assert code == 0 and f"ref {name}: published" in text, text
    code, text = typed(beside, shared_store, "grep", "made_on_the_branch")
    assert code == 0 and "unsaved.py" in text and "working folder" not in text
    assert typed(app, shared_store, "grep", "made_on_the_branch")[0] == 1
    assert not (beside / ".codequarry").exists()
    root = BundleRoot(app / ".codequarry/bundles")
    line = read_ref(root, name)
    assert root.read_current() == before and line is not None
    stack = read_manifest(root.version(line.version)).stack
    assert stack is not None and stack.base == before.version
    git(app, "worktree", "remove", "--force", str(beside))
    assert f"ref {name}: dropped" in typed(app, shared_store, "index")[1]


def test_a_folder_that_only_says_it_is_a_work_tree_is_none(app: Path, shared_store: Path) -> None:
    typed(app, shared_store, "index")
    git(app, "worktree", "add", "-q", "-b", "topic", str(app.parent / "beside"))
    forged = app.parent / "forged"
    forged.mkdir()
    (forged / ".git").write_text((app.parent / "beside/.git").read_text())
    (forged / "a.py").write_text("x = 1\n")
    assert typed(forged, shared_store, "versions")[0] != 0
