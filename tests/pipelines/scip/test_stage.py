"""The scip stage: real indexers where Node has them, and programs that misbehave in every way an indexer might."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.scip import runner as scip_runner
from codequarry.pipelines.scip.index_file import decode_document, read_scip
from codequarry.pipelines.scip.indexers import PYTHON, TYPESCRIPT, Indexer, Installed, find_indexer
from codequarry.pipelines.scip.runner import run_indexer
from codequarry.pipelines.scip.stage import ScipReport, read_scip_entries, scip_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.errors import ScipIndexError
from codequarry.schemas.settings.load import PathsSettings, ScipSettings, Settings
from codequarry.schemas.trust.programs import tools_folder
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.scip.scip_writer import document, metadata, occurrence

PY = '''"""Ünicode."""
import os


class Größe:
    """A size."""

    def doppelt(self, n: int) -> int:
        s = "ü𝒳"; result = n + n
        return result


def use() -> int:
    return Größe().doppelt(2)
'''
TS = "\ufeffexport interface Box { size: number }\nexport class K implements Box {\n  size = dbl('ü𝒳', 2)\n}\n"
JS = "export function dbl(_s, n) {\n  const s = 'ü𝒳'; const twice = n * 2;\n  return twice + s.length;\n}\n"
FILES = {"lib/größe.py": PY, "lib/main.py": "from lib.größe import use\n\nuse()\n", "web/k.ts": TS, "web/dbl.js": JS}

Run = Callable[..., ScipReport]


@pytest.fixture
def project(tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A snapshot of two languages, a store of its own, and no indexer on PATH."""
    for name, text in FILES.items():
        file = tmp_path / "demo" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    settings = make_settings(tmp_path / "demo", scip={"timeout_s": 1.5})
    settings = settings.model_copy(update={"paths": PathsSettings(store=tmp_path / "store", work=settings.paths.work)})
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/bin"]))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if any(isinstance(find_indexer(indexer, settings), Installed) for indexer in (PYTHON, TYPESCRIPT)):
        monkeypatch.setenv("PATH", str(tmp_path))
    (repository,) = repositories_by_name(settings.sources.repositories).values()
    snapshot_repository(repository, settings)
    return settings


@pytest.fixture
def real(project: Settings, real_indexers: Path) -> Settings:
    """The project with real indexers."""
    del real_indexers
    return project.model_copy(update={"scip": ScipSettings(timeout_s=100)})


def fake(settings: Settings, script: str, indexer: Indexer = PYTHON) -> None:
    """Put a shell script where the indexer would be; ``$out`` is the index it should write."""
    file = tools_folder() / "node_modules" / ".bin" / indexer.name
    file.parent.mkdir(parents=True, exist_ok=True)
    find = 'while [ "$1" != --output ]; do shift; done; out=$2\n'
    file.write_text(f"#!/bin/sh\n{find}{script}\n", encoding="utf-8")
    file.chmod(0o755)


def entries(settings: Settings) -> dict[str, tuple[str, str, int]]:
    """Status, reason and documents by indexer."""
    report = scip_repository("demo", settings)
    work = repository_work(settings.paths.work, "demo")
    assert read_scip_entries(work) == report.indexers
    assert pq.read_table(work.table("scip_documents")).num_rows == sum(each.documents for each in report.indexers)
    return {each.indexer.split()[0]: (each.status, each.reason, each.documents) for each in report.indexers}


def occurrences(settings: Settings) -> list[dict]:
    return pq.read_table(repository_work(settings.paths.work, "demo").table("scip_occurrences")).to_pylist()


def test_without_indexers_the_tables_are_empty_and_the_reason_is_said(project: Settings) -> None:
    started = time.process_time()
    for status, reason, documents in entries(project).values():
        assert (status, documents) == ("missing", 0)
        assert reason == "it is neither on PATH nor in the user's tools folder: `codequarry setup scip` installs it"
    assert time.process_time() - started < 1
    assert occurrences(project) == []


def test_switched_off_nothing_is_looked_for(project: Settings) -> None:
    fake(project, "exit 1")
    assert entries(project.model_copy(update={"scip": ScipSettings(enabled=False)})) == {}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 1", ("failed", "exit status 1", 0)),
        (":", ("failed", "no index was written", 0)),
        ("echo garbage > $out", ("failed", "what it wrote is no index", 0)),
        ("/usr/bin/head -c 57 /dev/zero > $out", ("failed", "what it wrote is no index", 0)),
        ("/bin/ln -s /etc/passwd $out", ("failed", "no index was written", 0)),
        ("kill -9 $$", ("failed", None, 0)),
        ("/bin/sleep 60", ("timeout", "stopped after 1.5 s ([scip] timeout_s)", 0)),
        ("trap '' TERM; while :; do :; done", ("timeout", "stopped after 1.5 s ([scip] timeout_s)", 0)),
        ("x=a; while :; do x=$x$x; done", ("failed", None, 0)),
    ],
)
def test_an_indexer_that_misbehaves_leaves_a_status(project: Settings, script: str, expected: tuple) -> None:
    settings = project.model_copy(
        update={"scip": ScipSettings(timeout_s=30 if "$x$x" in script else 1.5, memory_mb=256)}
    )
    fake(settings, script)
    found = entries(settings)["scip-python"]
    assert found[::2] == expected[::2]
    assert found[1] == expected[1] or (expected[1] is None and found[1])
    assert occurrences(settings) == []


def test_an_indexer_that_cannot_be_started_stops_nothing(project: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(project, ":")
    monkeypatch.setattr(scip_runner.tempfile, "mkdtemp", _refuse)
    assert entries(project)["scip-python"] == ("failed", "it could not be run: No space left on device", 0)


def _refuse(**_: object) -> str:
    raise OSError(28, "No space left on device")


def written(project: Settings, *paths: str, more: str = "", cut: int = 0) -> None:
    """A fake that writes an index of these documents."""
    data = metadata("scip-python", "9") + b"".join(
        document(path, occurrence("local 1", [0, 0, 1], 1)) for path in paths
    )
    prepared = project.paths.store / "prepared.scip"
    prepared.parent.mkdir(parents=True, exist_ok=True)
    prepared.write_bytes(data[: len(data) - cut])
    fake(project, f"/bin/cat {prepared} > $out\n{more}")


def test_an_indexer_that_forks_leaves_no_process_behind(project: Settings, tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    written(project, "lib/größe.py", "lib/main.py", more=f"(while :; do echo x >> {marker}; /bin/sleep 0.05; done) &")
    assert entries(project)["scip-python"] == ("ok", "", 2)
    size = marker.stat().st_size if marker.exists() else 0
    time.sleep(0.4)
    assert (marker.stat().st_size if marker.exists() else 0) == size


def test_where_namespaces_can_be_made_there_is_no_network_and_no_escape(project: Settings, tmp_path: Path) -> None:
    if not scip_runner._isolation():
        pytest.skip("unshare may make no namespaces here: only the process group confines an indexer")
    marker = tmp_path / "alive"
    loop = f"while :; do echo x >> {marker}; /bin/sleep 0.05; done"
    fake(project, f"/bin/cat /proc/net/dev\n/usr/bin/setsid /bin/sh -c '{loop}' &\n/bin/sleep 60")
    assert entries(project)["scip-python"][0] == "timeout"
    log = (repository_work(project.paths.work, "demo").path / "scip-python.log").read_text(encoding="utf-8")
    assert [line.split(":")[0].strip() for line in log.splitlines() if ":" in line] == ["lo"]
    time.sleep(0.2)
    size = marker.stat().st_size
    time.sleep(0.4)
    assert marker.stat().st_size == size > 0


@pytest.mark.parametrize(
    ("arguments", "reason", "documents"),
    [
        ({}, "1 of 2 files are not in the index", 1),
        ({"more": "exit 3"}, "exit status 3; 1 of 2 files are not in the index", 1),
        ({"more": "/bin/sleep 9"}, "stopped after 1.5 s ([scip] timeout_s); 1 of 2 files are not in the index", 1),
    ],
)
def test_what_an_interrupted_indexer_wrote_is_used(
    project: Settings, arguments: dict, reason: str, documents: int
) -> None:
    written(project, "lib/main.py", "web/k.ts", "elsewhere.py", **arguments)
    assert entries(project)["scip-python"] == ("partial", reason, documents)
    assert {row["path"] for row in occurrences(project)} == {"lib/main.py"}


def test_a_cut_index_is_partial_and_runs_again(project: Settings) -> None:
    written(project, "lib/größe.py", "lib/main.py", cut=3)
    status, reason, documents = entries(project)["scip-python"]
    assert (status, documents) == ("partial", 1)
    assert reason.startswith("1 parts of the index cannot be read")
    assert scip_repository("demo", project).cached == 0


def test_the_index_of_a_tree_is_kept_until_the_indexer_changes(project: Settings) -> None:
    written(project, "lib/größe.py", "lib/main.py")
    first = scip_repository("demo", project)
    again = scip_repository("demo", project)
    assert (first.cached, again.cached) == (0, 1)
    assert again.indexers == first.indexers
    for kept in (project.paths.store / "scip").rglob("*.zst"):
        kept.write_bytes(b"damaged")
    assert scip_repository("demo", project).cached == 0
    fake(project, "exit 1")
    assert entries(project)["scip-python"][0] == "failed"


def test_of_the_indexes_of_a_repository_those_used_last_are_kept(project: Settings) -> None:
    folder = project.paths.store / "scip" / "demo" / "scip-python"
    work = project.sources.repositories[0].path / "lib" / "main.py"
    (repository,) = repositories_by_name(project.sources.repositories).values()
    written(project, "lib/größe.py", "lib/main.py")
    first = work.read_text(encoding="utf-8")
    for text in (first, "a = 1\n", "a = 2\n", first, "a = 3\n"):
        work.write_text(text, encoding="utf-8")
        snapshot_repository(repository, project)
        cached = scip_repository("demo", project).cached
        assert cached == (text == first and len(list(folder.iterdir())) == scip_runner.KEPT)
    assert len(list(folder.iterdir())) == scip_runner.KEPT
    for text, expected in ((first, 1), ("a = 3\n", 1), ("a = 1\n", 0)):
        work.write_text(text, encoding="utf-8")
        snapshot_repository(repository, project)
        assert scip_repository("demo", project).cached == expected


def test_an_indexer_sees_the_files_of_its_languages_and_nothing_of_the_user(
    project: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "value")
    fake(project, "echo * lib/* web*; set; exit 1")
    scip_repository("demo", project)
    log = (repository_work(project.paths.work, "demo").path / "scip-python.log").read_text(encoding="utf-8")
    assert log.splitlines()[0] == "lib lib/größe.py lib/main.py web*"
    assert "SECRET_TOKEN" not in log
    assert f"HOME='{Path.home()}'" not in log


def test_installing_an_indexer_makes_the_bundle_out_of_date_and_the_manifest_tells(project: Settings) -> None:
    before = index_repositories(project)
    assert [(each.indexer, each.status) for each in before.manifest.sources[0].scip] == [
        ("scip-python", "missing"),
        ("scip-typescript", "missing"),
    ]
    written(project, "lib/größe.py", "lib/main.py")
    after = index_repositories(project)
    python, _ = after.manifest.sources[0].scip
    assert (python.status, python.coverage, after.unchanged) == ("ok", 1.0, False)
    assert after.manifest.entry("tables/scip_occurrences.parquet").rows == 2
    assert index_repositories(project).unchanged


def texts(settings: Settings, suffix: str) -> list[str]:
    """Text under every occurrence whose symbol ends so."""
    folder = settings.sources.repositories[0].path
    return [
        (folder / row["path"]).read_bytes()[row["start_byte"] : row["end_byte"]].decode()
        for row in occurrences(settings)
        if row["symbol"].endswith(suffix)
    ]


@pytest.mark.slow
def test_real_indexers_give_exact_ranges_in_text_that_is_not_ascii(real: Settings) -> None:
    assert entries(real) == {"scip-python": ("ok", "", 2), "scip-typescript": ("ok", "", 2)}
    assert texts(real, "`Größe`#") == ["Größe", "Größe"]
    assert texts(real, "#doppelt().") == ["doppelt", "doppelt"]
    assert texts(real, "#doppelt().(n)") == ["n", "n", "n"]
    assert texts(real, "/Box#") == ["Box", "Box"]
    assert texts(real, "/dbl().(n)") == ["n", "n"]
    assert {"twice", "result"} <= set(texts(real, "local 1") + texts(real, "local 2") + texts(real, "local 5"))
    work = repository_work(real.paths.work, "demo")
    kinds = {row["display_name"]: row["kind"] for row in pq.read_table(work.table("scip_symbols")).to_pylist()}
    assert kinds.items() >= {"Größe": "class", "doppelt": "method", "use": "function", "Box": "interface"}.items()
    tables = [
        file.read_bytes()
        for file in (work.table("scip_documents"), work.table("scip_symbols"), work.table("scip_occurrences"))
    ]
    for kept in (real.paths.store / "scip").rglob("*.zst"):
        kept.unlink()
    assert scip_repository("demo", real).cached == 0
    again = [
        file.read_bytes()
        for file in (work.table("scip_documents"), work.table("scip_symbols"), work.table("scip_occurrences"))
    ]
    assert again == tables


@pytest.mark.slow
def test_a_project_file_that_needs_an_absent_package_does_not_cost_the_index(real: Settings) -> None:
    installed = find_indexer(TYPESCRIPT, real)
    assert isinstance(installed, Installed)
    files = [("tsconfig.json", b'{"extends": "@tsconfig/node18/tsconfig.json"}'), ("a.ts", b"export const a = 1\n")]
    run = run_indexer(installed, "own", files, real.scip)
    assert run.problem == "", run.log
    assert [path for path, _ in read_scip(run.data).documents] == ["a.ts"]


@pytest.mark.slow
def test_a_real_index_cut_at_every_thousandth_byte_holds_its_whole_documents(real: Settings) -> None:
    installed = find_indexer(PYTHON, real)
    assert isinstance(installed, Installed)
    folder = Path(scip_runner.__file__).parent
    files = [(file.name, file.read_bytes()) for file in sorted(folder.glob("*.py"))]
    assert len(files) > 5
    run = run_indexer(installed, "own", files, real.scip)
    assert run.problem == "", run.log
    whole = read_scip(run.data)
    assert [path for path, _ in whole.documents] == [path for path, _ in files]
    counts: list[int] = []
    for cut in range(0, len(run.data), 1000):
        try:
            documents = read_scip(run.data[:cut]).documents
        except ScipIndexError:
            documents = ()
        assert all(decode_document(data) is not None for _, data in documents)
        counts.append(len(documents))
    assert counts == sorted(counts)
    assert counts[0] == 0 and counts[-1] >= len(files) - 1
