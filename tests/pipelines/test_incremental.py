"""A change costs what it touches, and what comes out is what building from nothing gives, byte for byte."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.pipelines.bundle import manifest as version_manifest
from codequarry.pipelines.bundle import stage as version_stage
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.store import content as content_store
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax import stage as chunks
from codequarry.pipelines.syntax import workers as chunk_workers
from codequarry.pipelines.syntax.parsing import TOO_MANY_READS
from codequarry.schemas.bundle import shards
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.compute import ComputeSettings
from codequarry.schemas.settings.load import PathsSettings, Settings
from codequarry.serving.engine.doctor import examine
from codequarry.serving.files.integrity import verify
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import MAIN, MakeSettings, Run
from tests.pipelines.repositories import commit

SMALL_SHARDS = "from codequarry.schemas.bundle import shards; shards._SHARD_BYTES = 1000; "
WORDS = "parse render fetch store merge count order index close write".split()


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kilobytes make several shards."""
    monkeypatch.setattr(shards, "_SHARD_BYTES", 1000)


def module(number: int, extra: str = "") -> str:
    """A file of a few functions; many of them share their texts with other files."""
    names = random.Random(number).sample(WORDS, 4)
    return (
        "".join(f'def {name}(x):\n    """{name.title()} it."""\n    return x + {number % 7}\n\n' for name in names)
        + extra
    )


def corpus(files: int = 30) -> dict[str, str | bytes]:
    return {f"pkg{number % 5}/mod{number}.py": module(number) for number in range(files)}


def contents(report: IndexReport) -> dict[str, str]:
    """Every file of a version by what it holds: its bytes, but for the catalog."""
    return {entry.path: entry.content_sha256 or entry.sha256 for entry in report.manifest.files}


def from_nothing(made: Settings, home: Path) -> IndexReport:
    """The same sources, built in another folder that knows nothing."""
    bundle = made.bundle.model_copy(update={"root": home / "elsewhere" / "bundles"})
    paths = PathsSettings(store=home / "elsewhere" / "store", work=home / "elsewhere" / "work")
    paths.store.mkdir(parents=True)
    if (made.paths.store / "encoders").exists():
        (paths.store / "encoders").symlink_to(made.paths.store / "encoders")
    return index_repositories(made.model_copy(update={"bundle": bundle, "paths": paths}))


def test_a_commit_redoes_its_file_and_its_shard(
    tmp_path: Path, make_settings: MakeSettings, small_shards: None, kept_vectors: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus())
    made = make_settings(repo)
    first = index_repositories(made)
    count = len(first.manifest.shards)
    assert count > 4
    assert first.reused_shards == 0
    commit(repo, {"pkg0/mod0.py": module(0, "def brand_new():\n    return 'nobody wrote this before'\n")})
    second = index_repositories(made)
    (chunks,) = second.chunks
    assert (chunks.files - chunks.reused_files, chunks.parts - chunks.reused_parts) == (1, 1)
    assert second.reused_shards == count - 1
    assert second.embeddings[0].embedded == 1
    linked = {entry.path for entry in second.manifest.files if (second.path / entry.path).stat().st_nlink > 1}
    own = [entry.path for entry in second.manifest.files if re.search(r"\.\d\d\.", entry.path)]
    assert sum(path not in linked for path in own) <= 7
    assert contents(second) == contents(from_nothing(made, tmp_path))


def test_shards_of_several_processes_are_those_of_one(
    tmp_path: Path, make_settings: MakeSettings, small_shards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("app", "lib"):
        commit(tmp_path / name, corpus(20))
    made = make_settings(tmp_path / "app", tmp_path / "lib")
    alone = from_nothing(made, tmp_path)
    numbers: list[int] = []

    def two(units: int, work: float, _: ComputeSettings) -> int:
        numbers.append(units)
        assert work < 1
        return 2

    monkeypatch.setattr(version_stage, "processes_for", two)
    shown: list[tuple[int, int]] = []
    together = index_repositories(made, lambda what, *done: shown.append(done) if what == "shards" else None)
    assert numbers == [len(together.manifest.shards)]
    assert [done for done, _ in shown if done] == [*range(1, len(together.manifest.shards) + 1), 1]
    assert contents(together) == contents(alone)
    assert together.manifest.digest == alone.manifest.digest


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.lists(
            st.tuples(st.sampled_from(["edit", "add", "delete", "move", "copy"]), st.integers(0, 10**6)),
            min_size=1, max_size=4,
        ),
        min_size=1, max_size=3,
    )
)  # fmt: skip
def test_any_history_gives_what_building_from_nothing_gives(
    tmp_path_factory: pytest.TempPathFactory, make_settings: MakeSettings, small_shards: None, steps: list
) -> None:
    folder = tmp_path_factory.mktemp("history")
    repo = folder / "app"
    commit(repo, corpus(12))
    made = make_settings(repo, home=folder / "home")
    last = index_repositories(made)
    for number, changes in enumerate(steps):
        for kind, dice in changes:
            change(repo, kind, dice)
        commit(repo, {"step.txt": f"{number}\n"})
        last = index_repositories(made)
        verify(BundlePaths(last.path), last.manifest, deep=True)
    assert contents(last) == contents(fresh := from_nothing(made, folder))
    assert last.manifest.digest == fresh.manifest.digest


def change(repo: Path, kind: str, dice: int) -> None:
    files = sorted(repo.rglob("mod*.py"))
    file = files[dice % len(files)]
    if kind == "edit":
        file.write_text(module(dice, f"LAST = {dice}\n"))
    elif kind == "add" or len(files) < 3:
        (repo / f"mod_new{dice}.py").write_text(module(dice))
    elif kind == "delete":
        file.unlink()
    elif kind == "move":
        file.rename(file.with_name(f"mod_moved{dice}.py"))
    else:
        shutil.copyfile(file, repo / f"mod_copy{dice}.py")


@pytest.mark.slow
def test_two_builds_on_different_days_in_different_places_and_orders_are_equal(
    tmp_path: Path, run: Run, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    for name in ("one", "two"):
        commit(tmp_path / name, corpus(15 if name == "one" else 9))
    first = index_repositories(make_settings(tmp_path / "one", tmp_path / "two"))
    # Another process, which hashes strings otherwise, on another checkout, the repositories the other way around.
    shutil.copytree(tmp_path / "one", tmp_path / "elsewhere" / "checkout", symlinks=True)
    monkeypatch.setenv("PYTHONHASHSEED", "4321")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    done = run(
        "index", f"two={tmp_path / 'two'}", f"one={tmp_path / 'elsewhere' / 'checkout'}", "--root", tmp_path / "other",
        program=SMALL_SHARDS + MAIN,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    second = json.loads((Path(done.stdout.strip()) / "manifest.json").read_text())
    assert {each["path"]: each["content_sha256"] or each["sha256"] for each in second["files"]} == contents(first)
    assert second["digest"] == first.manifest.digest
    # Another day, and files that are older than they were.
    monkeypatch.setattr(version_manifest, "datetime", Tomorrow)
    monkeypatch.setattr(content_store, "_today", lambda: 40_000)
    for file in tmp_path.joinpath("one").rglob("*.py"):
        os.utime(file, (0, 0))
    third = index_repositories(make_settings(tmp_path / "two", tmp_path / "one", home=tmp_path / "third"))
    assert contents(third) == contents(first)
    assert third.manifest.created.startswith("2031-01-01")
    catalogs = [(report.path / "catalog.duckdb").read_bytes() for report in (first, third)]
    assert len(catalogs[0]) == len(catalogs[1])


class Tomorrow(datetime):
    """Long after today."""

    @classmethod
    def now(cls, tz=None) -> datetime:
        return datetime(2031, 1, 1, tzinfo=tz or UTC)


@pytest.mark.parametrize("stop", ["chunk", "embed", "stage"])
def test_a_resumed_build_is_the_same_as_one_that_was_never_stopped(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, small_shards: None, stop: str
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(20))
    made = make_settings(repo)
    name = {
        "chunk": "syntax.stage.put_seal",
        "embed": "embed.stage.put_seal",
        "stage": "bundle.shard_files.write_segments",
    }[stop]
    names = {"chunk": "syntax.stage.put_seal", "embed": "embed.stage.put_seal"}
    name = names.get(stop, "bundle.shard_files.write_segments")
    with monkeypatch.context() as patched:
        patched.setattr(f"codequarry.pipelines.{name}", Interrupted(name, after=2))
        with pytest.raises(KeyboardInterrupt):
            index_repositories(made)
    resumed = index_repositories(made)
    if stop == "stage":
        assert resumed.chunks[0].reused_parts == resumed.chunks[0].parts
    assert contents(resumed) == contents(from_nothing(made, tmp_path))


class Interrupted:
    """A function that is interrupted at its third call."""

    def __init__(self, name: str, after: int) -> None:
        module_name, _, function = name.rpartition(".")
        self._real = getattr(__import__(f"codequarry.pipelines.{module_name}", fromlist=[function]), function)
        self._left = after

    def __call__(self, *arguments):
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._real(*arguments)


def work_files(made: Settings) -> Iterator[Path]:
    work = repository_work(made.paths.work, "app")
    yield from sorted(work.parts.rglob("*.parquet"))
    yield from sorted(work.parts.rglob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_what_is_damaged_in_the_work_folder_is_made_again(
    tmp_path: Path, make_settings: MakeSettings, small_shards: None, damage: str
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(12))
    made = make_settings(repo)
    index_repositories(made)
    for number, file in enumerate(work_files(made)):
        if number % 3 == 0:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0x20
            file.unlink()  # the same bytes may have another name, which stays as it is
            if damage != "remove":
                file.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    commit(repo, {"pkg0/mod0.py": module(99)})
    assert contents(index_repositories(made)) == contents(from_nothing(made, tmp_path))


def test_a_damaged_shard_of_current_is_written_again_and_not_linked(
    tmp_path: Path, make_settings: MakeSettings, small_shards: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus())
    made = make_settings(repo)
    first = index_repositories(made)
    victims = sorted(first.path.glob("texts.*.bin"))[:2] + sorted(first.path.glob("bm25/*.term"))[3:4]
    spoilt: dict[Path, bytes] = {}
    for file in victims:
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        spoilt[file] = bytes(data)
    commit(repo, {"extra.py": "EXTRA = 1\n"})
    second = index_repositories(made)
    verify(BundlePaths(second.path), second.manifest, deep=True)
    assert {file: file.read_bytes() for file in victims} == spoilt, "a published file was written to"
    assert second.reused_shards <= len(second.manifest.shards) - 2
    errors = [one for one in examine(made) if one.level == "error"]
    assert errors == []


def unseen(made: Settings, max_chars: int) -> Settings:
    """The same with chunks of another size: the store of the other tests knows these files."""
    return made.model_copy(update={"chunking": made.chunking.model_copy(update={"max_chars": max_chars})})


def test_a_file_over_which_workers_were_ended_is_tried_again(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(8))
    fresh = unseen(make_settings(repo), 1111)
    receive = chunk_workers._Worker.receive
    answers = iter([chunk_workers._ENDED] * 2)
    monkeypatch.setattr(chunk_workers._Worker, "receive", lambda worker: next(answers, receive(worker)))
    first = index_repositories(fresh)
    assert first.chunks[0].parsed_files == 7
    commit(repo, {"step.py": "STEP = 1\n"})
    second = index_repositories(fresh)
    assert (second.chunks[0].files, second.chunks[0].parsed_files) == (9, 9)
    assert contents(second) == contents(from_nothing(fresh, tmp_path))


def test_chunks_by_lines_are_told_with_their_reason_and_not_made_again(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    """Each run made them anew, and their part and shard with them."""
    repo = tmp_path / "app"
    commit(repo, {**corpus(8), "row.py": "def f():\n" + "    # comment\n" * 8_000 + "    pass\n"})
    fresh = unseen(make_settings(repo), 1113)
    (first,) = index_repositories(fresh).chunks
    assert first.fallbacks == {"row.py": TOO_MANY_READS}
    commit(repo, {"step.py": "STEP = 1\n"})
    (second,) = index_repositories(fresh).chunks
    assert second.fallbacks == first.fallbacks
    assert second.files - second.reused_files == 1


def test_all_parts_are_chunked_by_the_same_workers(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(24))
    fresh = unseen(make_settings(repo), 1112)
    start, started = chunk_workers._Worker._start, list[object]()
    monkeypatch.setattr(chunk_workers._Worker, "_start", lambda worker: started.append(worker) or start(worker))
    monkeypatch.setattr(chunks, "_PARTS_AT_ONCE", 1)
    report = index_repositories(fresh)
    assert report.chunks[0].parts > 4
    assert len(started) <= (os.cpu_count() or 1)
    commit(repo, {"step.py": "STEP = 1\n"})
    (again,) = index_repositories(fresh).chunks
    assert again.files - again.reused_files == 1, "the store was given every answer"


def test_without_hard_links_everything_is_written(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(12))
    made = make_settings(repo)
    first = index_repositories(made)
    before = {file: file.read_bytes() for file in first.path.rglob("*") if file.is_file()}

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    commit(repo, {"pkg0/mod0.py": module(5)})
    second = index_repositories(made)
    assert (second.reused_shards, second.linked_bytes) == (0, 0)
    verify(BundlePaths(second.path), second.manifest, deep=True)
    assert {file: file.read_bytes() for file in before} == before


def test_a_grown_repository_is_divided_anew_and_answers_alike(
    tmp_path: Path, make_settings: MakeSettings, small_shards: None
) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(6))
    made = make_settings(repo)
    few = len(index_repositories(made).manifest.shards)
    commit(repo, corpus(36))
    grown = index_repositories(made)
    assert len(grown.manifest.shards) > 2 * few
    assert not list(BundlePaths(grown.path).tables.glob("chunks.parquet"))
    with_one = from_nothing(made.model_copy(), tmp_path)
    assert contents(with_one) == contents(grown)
    bundle = Bundle.open_current(made.bundle.root)
    try:
        assert bundle.problems() == {}
        ids = bundle.directory.chunk_ids.tolist()
        rows = bundle.catalog.rows(ids)
        assert all(row.text.encode() in (repo / row.path).read_bytes() for row in rows.values())
        assert len(rows) == len(ids) == grown.manifest.counts.chunks
    finally:
        bundle.close()


def test_the_summary_says_what_was_reused(tmp_path: Path, run: Run) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(20))
    assert run("index", repo, program=SMALL_SHARDS + MAIN).returncode == 0
    commit(repo, {"pkg0/mod0.py": module(77)})
    said = " ".join(run("index", repo, "-v", program=SMALL_SHARDS + MAIN).stderr.split())
    assert "files chunked 1 chunked, 19 reused" in said
    assert re.search(r"index shards 1 built, \d+ reused", said)


@pytest.mark.slow
def test_store_gc_keeps_what_is_indexed_and_drops_what_was(tmp_path: Path, run: Run) -> None:
    repo = tmp_path / "app"
    commit(repo, corpus(4))
    (tmp_path / "cwd" / "dagster_project.toml").write_text(
        '[embedding]\nmodel = "minilm"\n'
        f'[paths]\nstore = "{tmp_path}/store"\n[[sources.repositories]]\npath = "{repo}"\n'
    )
    shared = {"CODEQUARRY__PATHS__STORE": f"{tmp_path}/store"}
    program = f"import os; os.environ.update({shared!r}); {MAIN}"

    def counts(*arguments: str) -> dict[str, dict[str, int]]:
        done = run("store", "gc", "--json", *arguments, program=program)
        assert done.returncode == 0, done.stderr
        return {each["what"]: each for each in json.loads(done.stdout)}

    assert run("trust", program=program).returncode == 0  # store and repository lie outside of the folder
    assert run("index", program=program).returncode == 0
    commit(repo, {"gone.py": "def gone():\n    return 'soon'\n"})
    assert run("index", program=program).returncode == 0
    (repo / "gone.py").unlink()
    commit(repo, {})
    assert run("index", program=program).returncode == 0
    assert counts()["vectors"]["unused"] == 0  # used today
    dry = counts("--days", "0", "--dry-run")
    # Its chunk and its card.
    assert (dry["vectors"]["unused"], dry["syntax"]["unused"], dry["encoders"]["kept"]) == (2, 1, 1)
    assert counts("--days", "0") == dry
    assert counts("--days", "0")["vectors"] == {**dry["vectors"], "unused": 0, "freed_bytes": 0}
    commit(repo, {"step.py": "STEP = 1\n"})
    said = run("index", "-v", program=program).stderr
    assert re.search(r"vectors +1 embedded", said), said
    people = run("store", "gc", program=program)
    assert "freed 0.0 MB" in people.stdout
