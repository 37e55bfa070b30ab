"""Gates of delta versions: rows of the delta, counts and shares of base and delta as one, questions about changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from codequarry.pipelines.gates.answers import asked
from codequarry.pipelines.gates.answers.verdict import verdict_names
from codequarry.pipelines.gates.live_rows import (
    count_by_language,
    count_changed_files,
    hidden_files,
    indexed_files,
)
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack import build
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.tables import MODULES, read_table, write_table
from codequarry.schemas.errors import GateError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import current_manifest
from codequarry.serving.version.check import Check
from codequarry.serving.version.file_checks import check_version
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.repositories import commit
from tests.pipelines.stack.test_changes import changes, with_any_share

ANSWERS = "files changed since answers were compared"


def python(number: int, returned: int = 0) -> str:
    return (
        f"from pkg.mod{(number + 1) % 30} import frobnicate_{(number + 1) % 30}\n\n\n"
        f"def frobnicate_{number}(value):\n"
        f'    """Frobnicate the widget of kind number {number} for the counter in the cellar."""\n'
        f"    return value + {returned}\n"
    )


FILES: dict[str, str | bytes] = {
    "pkg/__init__.py": '"""Widgets."""\n',
    **{f"pkg/mod{number}.py": python(number) for number in range(30)},
    **{f"docs/page{number}.md": f"# Page {number}\n\nAbout widget {number}.\n" for number in range(12)},
}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    commit(tmp_path / "app", FILES)
    return tmp_path / "app"


@pytest.fixture
def settings(app: Path, make_settings: MakeSettings) -> Settings:
    """Settings of a repository of 43 files with a complete version published, whose gate of answers asks at once."""
    made = with_any_share(make_settings(app, retrieval={"min_changed_share": 0.05, "min_questions": 2}))
    index_repositories(made)
    return made


def current(settings: Settings) -> str:
    return BundleRoot(settings.bundle.root).read_current().version


def delete_pages(app: Path) -> None:
    for number in range(12):
        (app / f"docs/page{number}.md").unlink()


def delete_modules(app: Path) -> None:
    for number in range(16):
        (app / f"pkg/mod{number}.py").unlink()


def turn_into_tests(app: Path) -> None:
    for number in range(14):
        (app / f"pkg/mod{number}.py").rename(app / f"pkg/test_mod{number}.py")


def turn_into_blobs(app: Path) -> None:
    for number in range(11):
        (app / f"pkg/mod{number}.py").write_bytes(b"\0\1\2")


def put_secrets(app: Path) -> None:
    for number in range(12):
        token = "ghp" + "_" + f"A7xQ9kLm2ZpR4tVb8NcY1WdE5sHfJ3uG{number:04d}"
        (app / f"pkg/secret{number}.py").write_text(f'token = "{token}"\n')


def lengthen(app: Path) -> None:
    for number in range(6):
        body = "\n\n".join(f"def long_{number}_{each}(x):\n" + "    x = x + 1\n" * 90 for each in range(6))
        (app / f"pkg/mod{number}.py").write_text(body)


@pytest.mark.parametrize(
    ("fault", "gate"),
    [
        (delete_modules, "indexed files that went"),
        (delete_modules, "files of a language that went"),
        (delete_pages, "files of a language that went"),
        (delete_pages, "share of a language"),
        (turn_into_tests, "share of a path class"),
        (turn_into_blobs, "share of files skipped for a reason"),
        (put_secrets, "secrets that came"),
        (lengthen, "chunks per file"),
    ],
)
def test_shares_of_base_and_delta_as_one_are_compared_with_current(
    fault: Callable[[Path], None], gate: str, app: Path, settings: Settings
) -> None:
    before = current(settings)
    fault(app)
    with pytest.raises(GateError, match=rf"(: |; ){gate}: "):
        index_changes(settings)
    assert current(settings) == before
    accepted = index_changes(settings, accept="meant")
    assert isinstance(accepted, IndexReport)
    assert gate in {entry.check for entry in accepted.manifest.accepted}


def test_a_delta_is_compared_with_the_delta_that_is_current(app: Path, settings: Settings) -> None:
    """Sixteen files went, which was accepted: the next delta lacks them too, and that is no news."""
    delete_modules(app)
    assert isinstance(index_changes(settings, accept="meant"), IndexReport)
    (app / "pkg/mod20.py").write_text(python(20, 7))
    assert changes(settings).manifest.accepted == ()


@pytest.mark.parametrize(
    ("checks", "gate"),
    [
        ({"min_chunks": 60}, "chunks"),
        ({"min_indexed_share": 0.9}, "share of files indexed"),
        ({"max_secrets": 3}, "secrets found"),
    ],
)
def test_limits_are_of_base_and_delta_as_one(checks: dict[str, Any], gate: str, app: Path, settings: Settings) -> None:
    many = settings.model_copy(update={"checks": settings.checks.model_copy(update=checks)})
    for number in range(4):
        turn = "ghp" + "_" + f"A7xQ9kLm2ZpR4tVb8NcY1WdE5sHfJ3uG{number:04d}"
        (app / f"pkg/mod{number}.py").write_text(f'token = "{turn}"\n')
    for number in range(5):
        (app / f"pkg/mod{10 + number}.py").write_bytes(b"\0\1")
    with pytest.raises(GateError, match=rf"(: |; ){gate}: "):
        index_changes(many, accept="no comparison with CURRENT, so that no reason helps")


def test_the_size_budget_is_of_base_and_delta(app: Path, settings: Settings) -> None:
    root = BundleRoot(settings.bundle.root)
    base = sum(file.stat().st_size for file in root.version(current(settings)).path.rglob("*") if file.is_file())
    limits = settings.checks.model_copy(update={"max_bundle_mb": base / 1e6 + 1})
    (app / "pkg/mod1.py").write_text(python(1, 7))
    with pytest.raises(GateError, match="size budget"):
        index_changes(settings.model_copy(update={"checks": limits}))


def test_an_import_of_the_delta_that_leads_to_no_file_is_found(app: Path, settings: Settings) -> None:
    (app / "pkg/mod1.py").write_text(python(1, 7))
    over = changes(settings)
    paths = BundlePaths(over.path)

    def failed() -> list[str]:
        return [check.name for check in check_version(paths, over.manifest) if not check.passed]

    assert failed() == []
    table = read_table(paths.table("modules"))
    assert table["resolved"].to_pylist() == [["pkg/mod2.py"]]
    rows = [{**row, "resolved": ["pkg/gone.py"]} for row in table.to_pylist()]
    paths.table("modules").unlink()
    write_table(paths.table("modules"), pa.Table.from_pylist(rows, MODULES), MODULES)
    assert "imports of the delta that lead to no file" in failed()


def test_a_row_of_the_delta_that_is_no_good_stops_it(
    app: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = current(settings)
    (app / "pkg/mod1.py").write_text(python(1, 7))
    modules = build.module_repository

    def spoil(name: str, settings: Settings, *rest: Any) -> Any:
        report = modules(name, settings, *rest)
        (file,) = (settings.paths.work / "repositories").glob("*/modules.parquet")
        table = read_table(file)
        rows = [{**row, "fan_in": -1} for row in table.to_pylist()]
        file.unlink()
        write_table(file, pa.Table.from_pylist(rows, MODULES), MODULES)
        return report

    monkeypatch.setattr(build, "module_repository", spoil)
    with pytest.raises(GateError, match="modules with a negative count: 1"):
        index_changes(settings)
    assert current(settings) == before


def test_the_files_of_a_stack_are_those_of_the_tree(app: Path, settings: Settings) -> None:
    root = BundleRoot(settings.bundle.root)
    base = current_manifest(root)
    assert base is not None
    (app / "pkg/mod1.py").write_text(python(1, 7))
    (app / "pkg/mod2.py").unlink()
    (app / "pkg/new.py").write_text("def new():\n    return 1\n")
    over = changes(settings)
    paths = BundlePaths(over.path)

    def changed(one: Manifest, other: Manifest) -> int:
        return count_changed_files(root.version(one.version), one, root.version(other.version), other)

    assert hidden_files(paths, over.manifest) == {("app", "pkg/mod1.py"), ("app", "pkg/mod2.py")}
    assert changed(over.manifest, base) == changed(base, over.manifest) == 3
    (app / "pkg/mod2.py").write_text(python(2, 7))
    (app / "pkg/new.py").unlink()
    again = changes(settings).manifest
    assert changed(again, over.manifest) == 2, "both lie over one base, and hide the same module"
    whole = index_repositories(settings, whole=True)
    assert indexed_files(root.version(again.version), again) == indexed_files(BundlePaths(whole.path), whole.manifest)
    assert changed(again, whole.manifest) == 0
    assert changed(over.manifest, whole.manifest) == 2
    counts = [count_by_language(root.version(each.version), each) for each in (again, whole.manifest)]
    assert counts[0] == counts[1]


def asked_in(checks: list[Check]) -> set[str]:
    """Return the numbers of questions that were asked."""
    compared = [check.found for check in checks if check.name == "NDCG@10 of all languages against CURRENT"]
    return {found.rpartition(", ")[2].rstrip(")") for found in compared}


def found_by(settings: Settings, progress: list[Check]) -> IndexReport:
    report = index_changes(settings, report=progress.extend)
    assert isinstance(report, IndexReport)
    return report


def test_answers_about_changed_files_are_compared_when_enough_changed_and_the_whole_at_compaction(
    app: Path, settings: Settings
) -> None:
    root = BundleRoot(settings.bundle.root)
    asked_before = len(verdict_names(root))
    for number in range(2):  # of 43 files, at most two are less than a share of .05
        (app / f"pkg/mod{number}.py").write_text(python(number, 7))
        checks: list[Check] = []
        found_by(settings, checks)
        assert [check.found for check in checks if check.name == ANSWERS] == [f"{number + 1} of 43"]
    (app / "pkg/mod2.py").write_text(python(2, 7))
    checks = []
    over = found_by(settings, checks)
    assert ANSWERS not in {check.name for check in checks}
    assert "questions listed twice" in {check.name for check in checks}
    assert len(verdict_names(root)) == asked_before + 1
    assert asked_in(checks) == {"6 questions"}  # two about each of the three files that differ from the base
    assert over.manifest.version in verdict_names(root)
    (app / "pkg/mod3.py").write_text(python(3, 7))
    checks = []
    found_by(settings, checks)
    assert [check.found for check in checks if check.name == ANSWERS] == ["1 of 43"]
    whole = index_repositories(settings, whole=True)
    verdict = json.loads((root.verdicts / whole.manifest.version / "verdict.json").read_text())
    assert "32 questions" in json.dumps(verdict)


def test_a_delta_whose_answers_are_worse_is_stopped(
    app: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = current(settings)
    for number in range(20):
        (app / f"pkg/mod{number}.py").write_text(python(number, 7))
    opened = asked._open_engine

    def lose(paths: BundlePaths, *rest: Any) -> Any:
        """The staged version finds nothing of what it changed."""
        engine = opened(paths, *rest)
        if paths.path.name.startswith(".staging"):
            search = engine.search
            nothing = lambda request: search(request.model_copy(update={"query": "nothing"}))  # noqa: E731
            monkeypatch.setattr(engine, "search", nothing)
        return engine

    monkeypatch.setattr(asked, "_open_engine", lose)
    with pytest.raises(GateError, match="NDCG@10 of all languages against CURRENT"):
        index_changes(settings)
    assert current(settings) == before


def test_a_reason_is_taken_by_the_command(run: Run, app: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f'[bundle]\ndelta = true\ndelta_share = 1\n[sources]\nrepositories = [{{ path = "{app}" }}]\n')
    assert run("index", "--settings", config).returncode == 0
    delete_modules(app)
    refused = run("index", "--settings", config)
    assert refused.returncode == 2
    assert "indexed files that went" in " ".join(refused.stderr.split())
    done = run("index", "--settings", config, "--accept-regression", "they moved")
    assert done.returncode == 0, done.stderr
    (current_file,) = tmp_path.rglob("CURRENT")
    root = BundleRoot(current_file.parent)
    manifest = json.loads(root.version(root.read_current().version).manifest.read_text())
    assert manifest["stack"] is not None
    assert {entry["reason"] for entry in manifest["accepted"]} == {"they moved"}
