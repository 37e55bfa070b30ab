"""What becomes of the repositories that are published when others are indexed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from codequarry.pipelines.cli.repositories import over
from codequarry.pipelines.sources import earlier as earlier_sources
from codequarry.pipelines.sources.earlier import remember, selected
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import BundleSettings, RepositorySettings, Settings
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A bundle that holds ``a`` and ``b``, indexed here."""
    for name in "abc":
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    base = Settings(bundle=BundleSettings(root=tmp_path / "bundles"))
    remember(over(base, ["a", "b"]))
    publish(monkeypatch, "a", "b")
    return base


def publish(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    manifest = SimpleNamespace(sources=[SimpleNamespace(name=name) for name in names])
    monkeypatch.setattr(earlier_sources, "current_manifest", lambda _root: manifest)


def chosen(
    settings: Settings, *given: str, only: bool = False, whole: bool = False
) -> tuple[list[str], dict[str, str]]:
    listed = settings.sources.repositories
    selection = selected(over(settings, [*given]), listed, whole=whole, only=only)
    return [each.place for each in selection.settings.sources.repositories], selection.fates


def test_what_is_published_stays_in_its_order(settings: Settings, tmp_path: Path) -> None:
    places, fates = chosen(settings, "c")
    assert places == [str(tmp_path / "a"), str(tmp_path / "b"), "c"]
    assert {name: fate.split()[0].rstrip(",") for name, fate in fates.items()} == {
        "a": "kept", "b": "kept", "c": "added"
    }  # fmt: skip
    assert chosen(settings, "b") == ([str(tmp_path / "a"), "b"], {"a": fates["a"]})


def test_only_drops_the_others_and_says_so(settings: Settings) -> None:
    places, fates = chosen(settings, "c", only=True)
    assert places == ["c"]
    assert {name for name, fate in fates.items() if fate.startswith("dropped")} == {"a", "b"}


def test_the_list_of_the_settings_file_is_all(settings: Settings) -> None:
    sources = settings.sources.model_copy(update={"repositories": (RepositorySettings(path=Path("b")),)})
    listed = settings.model_copy(update={"sources": sources})
    assert chosen(listed, whole=True)[0] == ["b"]
    assert chosen(listed, whole=True)[1].keys() == {"a"}


def test_a_repository_whose_place_is_gone_or_unknown_is_never_lost_silently(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(InvalidArgumentError) as caught:
        chosen(settings, "c")
    assert str(tmp_path / "a") in caught.value.message
    assert "--only" in caught.value.suggestion
    publish(monkeypatch, "imported")
    with pytest.raises(InvalidArgumentError, match="'imported'"):
        chosen(settings, "c")
    assert chosen(settings, "c", only=True)[0] == ["c"]


def test_the_settings_file_tells_a_place_too(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, "listed")
    own = RepositorySettings(path=Path("b"), name="listed")
    sources = settings.sources.model_copy(update={"repositories": (own,)})
    assert chosen(settings.model_copy(update={"sources": sources}), "c")[0] == ["b", "c"]


def test_another_folder_of_the_same_name_replaces_nothing_by_accident(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "x" / "a").mkdir(parents=True)
    with pytest.raises(InvalidArgumentError) as caught:
        chosen(settings, "x/a")
    assert str(tmp_path / "a") in caught.value.message
    assert "replace" in caught.value.suggestion
    places, fates = chosen(settings, "a=x/a")
    assert (places[0], fates["a"].split()[0]) == ("x/a", "now")
    shutil.rmtree(tmp_path / "a")
    assert "now" in chosen(settings, "x/a")[1]["a"]


def test_a_url_is_remembered_without_credentials_and_with_its_ref(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remember(over(settings, ["app=https://me:s3cret@example.org/app#v1"]))
    publish(monkeypatch, "app")
    assert chosen(settings, "c")[0] == ["https://example.org/app#v1", "c"]
    (file,) = (tmp_path / "state" / "codequarry" / "sources").iterdir()
    assert "s3cret" not in file.read_text()


def test_indexing_a_further_repository_keeps_the_first_on_the_command_line(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    commit(first, {"a.py": "def original():\n    return 1\n"})
    commit(second, {"b.py": "def further():\n    return 2\n"})
    assert run("index", first).returncode == 0
    (first / "a.py").write_text("def original_changed():\n    return 1\n")
    done = run("index", second)
    assert done.returncode == 0, done.stderr
    said = "".join(done.stderr.split())  # a long path is broken at the edge of the terminal
    assert f"kept,readagainfrom{first}" in said
    assert "added" in said
    assert {row["name"] for row in sources(run)} == {"first", "second"}
    assert "a.py" in run("search", "original_changed", "--channel", "bm25").stdout
    dropped = run("index", second, "--only")
    assert "first: dropped" in dropped.stderr
    assert {row["name"] for row in sources(run)} == {"second"}


def sources(run: Run) -> list[dict[str, str]]:
    return json.loads(run("sql", "SELECT DISTINCT repo AS name FROM files", "--json").stdout)


def test_a_fresh_repository_is_indexed_and_asked_from_a_folder_below(run: Run, tmp_path: Path) -> None:
    """`git init`, some files, no commit; then a question from a folder below it."""
    from tests.pipelines.repositories import git

    folder = tmp_path / "cwd"
    git(folder, "init", "--quiet")
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("def started():\n    return 1\n")
    done = run("index", ".")
    assert done.returncode == 0, done.stderr
    assert "without commits yet" in done.stderr
    program = f"import os; os.chdir({str(folder / 'src')!r})\nfrom codequarry.pipelines.cli.root import main; main()"
    for question in (("search", "started", "--channel", "bm25"), ("grep", "started"), ("definition", "started")):
        asked = run(*question, program=program)
        assert (asked.returncode, "app.py" in asked.stdout) == (0, True), asked.stderr


def test_a_missing_repository_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cwd" / "a.py").write_text("x = 1\n")
    done = run("index", ".", "lost=nowhere")
    assert done.returncode == 2
    assert "'lost'" in done.stderr
