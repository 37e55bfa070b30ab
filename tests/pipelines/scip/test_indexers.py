"""Indexers of many languages: which are run, how, with what of the user's, and what is said of those that are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codequarry.pipelines.scip import runner
from codequarry.pipelines.scip.indexers import CLANG, GO, INDEXERS, Installed, find_indexer, indexer_versions
from codequarry.pipelines.scip.stage import entries_over, scip_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.manifest import ScipEntry
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.settings.load import PathsSettings, Settings
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.scip.scip_writer import document, metadata, occurrence

FILES = {
    "go.mod": "module demo\n",
    "main.go": "package main\n\nfunc main() {}\n",
    "lib/lib.rs": "pub fn run() {}\n",
    "Cargo.toml": '[package]\nname = "demo"\nversion = "0.1.0"\n',
    "src/App.java": "class App {}\n",
    "src/App.cs": "class App {}\n",
    "app.rb": "def run; end\n",
    "sorbet/config": "--dir\n.\n",
    "native.c": "int run(void) { return 0; }\n",
}
OWN = {"scip-go": "main.go", "scip-ruby": "app.rb", "rust-analyzer": "lib/lib.rs"}
OWN |= {"scip-java": "src/App.java", "scip-dotnet": "src/App.cs"}
BUILDS = ("rust-analyzer", "scip-java", "scip-dotnet")


@pytest.fixture
def project(tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A snapshot of six languages, and a PATH of the system's programs and those of `put`."""
    for name, text in FILES.items():
        file = tmp_path / "demo" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"]))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SECRET_TOKEN", "value")
    monkeypatch.setenv("CARGO_HOME", "/tool/chains")
    monkeypatch.setenv("GOPATH", str(tmp_path / "gopath"))
    settings = make_settings(tmp_path / "demo")
    settings = settings.model_copy(update={"paths": PathsSettings(store=tmp_path / "store", work=settings.paths.work)})
    (repository,) = repositories_by_name(settings.sources.repositories).values()
    snapshot_repository(repository, settings)
    return settings


def building(settings: Settings) -> Settings:
    return settings.model_copy(update={"scip": settings.scip.model_copy(update={"run_builds": True})})


def put(folder: Path, name: str) -> None:
    """Put a program on PATH that tells what it sees and writes an index of its language's file."""
    prepared = folder / f"{name}.scip"
    prepared.write_bytes(metadata(name, "9") + document(OWN.get(name, ""), occurrence("local 1", [0, 0, 1], 1)))
    file = folder / "bin" / name
    file.write_text(
        "#!/bin/sh\n"
        'echo "arguments: $*"\n/usr/bin/env\n/usr/bin/find . -type f\n'
        'for each; do [ "$before" = --output ] || [ "$before" = --index-file ] && out=$each; before=$each; done\n'
        f'/bin/cat {prepared} > "$out"\n',
        encoding="utf-8",
    )
    file.chmod(0o755)


def entries(settings: Settings) -> dict[str, ScipEntry]:
    return {each.indexer.split()[0]: each for each in scip_repository("demo", settings).indexers}


def told(settings: Settings, name: str) -> list[str]:
    """Lines that the program of `put` printed."""
    log = repository_work(settings.paths.work, "demo").path / f"{name}.log"
    return log.read_text(encoding="utf-8").splitlines()


def test_each_indexer_has_languages_of_its_own_and_says_where_it_comes_from() -> None:
    languages = [language for indexer in INDEXERS for language in indexer.languages]
    assert len(set(languages)) == len(languages)
    assert set(languages) <= MODULE_LANGUAGES
    for indexer in INDEXERS:
        assert "`" in indexer.install or "https://" in indexer.install
        assert indexer is CLANG or sum("{index}" in each for each in indexer.arguments) == 1


def test_one_on_the_path_is_run_over_a_copy_and_sees_nothing_of_the_user(project: Settings, tmp_path: Path) -> None:
    put(tmp_path, "scip-go")
    put(tmp_path, "go")
    put(tmp_path, "scip-ruby")
    found = entries(project)
    assert {name: found[name].status for name in ("scip-go", "scip-ruby")} == {"scip-go": "ok", "scip-ruby": "ok"}
    lines = told(project, "scip-go")
    assert lines[0].startswith("arguments: --module-version . --output /")
    assert {"./go.mod", "./main.go", "./lib/lib.rs"} <= set(lines)
    assert {"GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0", f"GOMODCACHE={tmp_path}/gopath/pkg/mod"} <= set(lines)
    assert not any("SECRET_TOKEN" in line or line == f"HOME={Path.home()}" for line in lines)
    lines = told(project, "scip-ruby")
    assert lines[0].endswith("--gem-metadata demo@0 .")
    assert {line for line in lines if line.startswith("./")} == {"./app.rb", "./sorbet/config"}
    assert scip_repository("demo", project).cached == 2


def test_one_that_needs_another_program_says_so(
    project: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "scip-go")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_indexer(GO, project) == "it needs `go`, which is not on PATH"


@pytest.mark.parametrize("name", BUILDS)
def test_one_that_runs_the_build_is_run_where_that_is_allowed(project: Settings, tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    entry = entries(project)[name]
    assert (entry.status, entry.documents) == ("missing", 0)
    assert entry.reason.startswith("it runs the repository's build, so its code: allow that by")
    assert indexer_versions(project).get(name) is None
    allowed = building(project)
    assert indexer_versions(allowed)[name].startswith("sha256-")
    entry = entries(allowed)[name]
    if not runner._isolation():
        assert entry.reason == "it runs the build, and this system cannot cut that off the network"
        return
    assert (entry.status, entry.reason, entry.documents) == ("ok", "", 1)
    lines = told(allowed, name)
    assert {"CARGO_HOME=/tool/chains", f"HOME={Path.home()}", f"PATH={os.environ['PATH']}"} <= set(lines)
    assert set(lines) >= {f"./{path}" for path in FILES}
    assert not any("SECRET_TOKEN" in line for line in lines)


def test_where_no_namespace_can_be_made_no_build_is_run(
    project: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "rust-analyzer")
    monkeypatch.setattr(runner, "_isolation", tuple)
    entry = entries(building(project))["rust-analyzer"]
    assert (entry.status, entry.reason) == (
        "failed",
        "it runs the build, and this system cannot cut that off the network",
    )


def test_an_indexer_in_an_indexed_repository_is_none(
    project: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "go")
    put(tmp_path, "scip-go")
    assert isinstance(find_indexer(GO, project), Installed)
    inside = tmp_path / "demo" / "bin"
    (tmp_path / "bin").rename(inside)
    monkeypatch.setenv("PATH", os.pathsep.join([str(inside), "/usr/bin"]))
    assert isinstance(find_indexer(GO, project), str)


def test_another_program_of_the_name_is_another_version(project: Settings, tmp_path: Path) -> None:
    put(tmp_path, "scip-ruby")
    before = indexer_versions(project)["scip-ruby"]
    assert indexer_versions(project)["scip-ruby"] == before
    with (tmp_path / "bin" / "scip-ruby").open("a", encoding="utf-8") as stream:
        stream.write("# another one\n")
    assert indexer_versions(project)["scip-ruby"] != before


def test_a_missing_indexer_is_named_where_a_repository_has_enough_of_its_language(
    project: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = entries(project)
    assert set(found) == {indexer.name for indexer in INDEXERS} - {"scip-python", "scip-typescript"}
    assert all(indexer.install in found[indexer.name].reason for indexer in INDEXERS if indexer.name in found)
    few = {"go": 495, "typescript": 5, "markdown": 900}
    assert [each.indexer for each in entries_over((), frozenset(), few, {}, project)] == ["scip-go"]
    few["typescript"] += 22
    named = entries_over((), frozenset(), few, {}, project)
    assert [(each.indexer, each.files) for each in named] == [("scip-typescript", 27), ("scip-go", 495)]
    assert entries_over((), frozenset({"go", "typescript"}), few, {}, project) == ()
    ran = ScipEntry(indexer="scip-go 1", status="ok", reason="", files=495, documents=495)
    over = entries_over((ran,), frozenset({"go"}), few, {"go": 1, "markdown": 1, "typescript": 1}, project)
    assert (over[0].status, over[0].documents) == ("partial", 495)
    assert over[0].reason == "of the last complete version: 1 files that changed since are known by syntax"
    assert [each.indexer for each in over[1:]] == ["scip-typescript"]


def test_the_command_line_says_what_is_missing_and_where_it_comes_from(
    project: Settings, run: Run, tmp_path: Path
) -> None:
    done = run("index", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("not run: ")]
    assert "scip-go" in line
    assert line.endswith("`codequarry index --verbose` says how each is had")
    said = " ".join(run("index", tmp_path / "demo", "--verbose", "--force").stderr.split())
    assert "scip-go missing, 0 of 1 file: it is neither on PATH nor in the user's tools folder: `go install" in said
    assert "scip-clang missing, 0 of 1 file: it needs the compilation database of the build" in said


def test_the_command_line_says_where_a_failed_one_tells_why(project: Settings, run: Run, tmp_path: Path) -> None:
    put(tmp_path, "scip-ruby")
    (tmp_path / "bin" / "scip-ruby").write_text("#!/bin/sh\necho no sorbet here\nexit 1\n", encoding="utf-8")
    done = run("index", tmp_path / "demo")
    assert "failed: exit status 1; scip-ruby.log in its work folder has what it printed" in " ".join(
        (done.stdout + done.stderr).split()
    )
    (log,) = (tmp_path / "cwd").rglob("scip-ruby.log")
    assert log.read_text(encoding="utf-8") == "no sorbet here\n"
