"""The sensor of git heads, tick by tick: nothing without a change, and exactly what changed."""

import json
import shutil
import subprocess

import dagster as dg
import pytest

from codequarry.assets import automation as module
from codequarry.assets.automation import CHANGED_TAG, Watch, others_are_stale
from codequarry.assets.definitions import build_definitions
from codequarry.assets.project import sync_partitions
from codequarry.pipelines.publish.rollback import roll_back
from tests.assets.conftest import Workbench
from tests.assets.test_reindex import materializations
from tests.pipelines.repositories import git

NAMES = ("alpha", "beta", "gamma", "plain")


class Ticker:
    """The sensor with its cursor, as the daemon keeps it."""

    def __init__(self, workbench):
        self.workbench, self.cursor = workbench, None

    def tick(self):
        sensor = build_definitions(self.workbench.project).resolve_sensor_def("git_heads")
        with dg.build_sensor_context(
            self.workbench.instance, cursor=self.cursor, resources={"project": self.workbench.project}
        ) as context:
            result = sensor(context)
        self.cursor = result.cursor
        return result

    def requested(self):
        """Names of the repositories for which the tick asks a run."""
        requests = self.tick().run_requests or []
        return [request.tags[CHANGED_TAG] for request in requests]

    def run(self, result):
        """What the daemon starts."""
        (request,) = result.run_requests
        return self.workbench.run(dict(request.tags))


def commit(workbench, name, text):
    """A commit of a repository of the workbench, made when it is not there."""
    folder = workbench.folder / "repositories" / name
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "-b", "main")
    workbench.write(f"{name}/code.py", text)
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "--quiet", "-m", "more")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Three repositories and a folder without git, all indexed by the run that the first tick asked for.

    Not to be changed: ``ticker`` is a copy.
    """
    with dg.DagsterInstance.ephemeral() as instance:
        workbench = Workbench(tmp_path_factory.mktemp("watched"), instance)
        for name in NAMES:
            workbench.write(f"{name}/README.md", f"# {name}\n\nWhat {name} is for.\n")
        for name in NAMES[:3]:
            commit(workbench, name, f"def {name}():\n    return 1\n")
        workbench.configure(*NAMES)
        ticker = Ticker(workbench)
        result = ticker.run(ticker.tick())
        assert result.success
        assert {partition for _, partition in materializations(result)} == {*NAMES, None}
        yield ticker


@pytest.fixture
def ticker(watched, tmp_path, workbench):
    """A copy of what was indexed, with the sensor as it was behind its first tick."""
    shutil.rmtree(tmp_path)
    shutil.copytree(watched.workbench.folder, tmp_path, symlinks=True)
    sync_partitions(workbench.instance, workbench.project.settings())
    ticker = Ticker(workbench)
    ticker.cursor = watched.cursor
    return ticker


def test_ten_ticks_without_a_change_ask_for_nothing(ticker):
    assert [ticker.requested() for _ in range(10)] == [[]] * 10
    fresh = Ticker(ticker.workbench)  # Dagster lost its cursor: CURRENT still says what is served
    assert [fresh.requested() for _ in range(10)] == [[]] * 10
    assert "4 repositories, no new head" in fresh.tick().skip_reason.skip_message


def test_one_changed_repository_is_one_run_of_its_partition_and_the_bundle(ticker):
    head = commit(ticker.workbench, "beta", "def beta():\n    return 2\n")
    tick = ticker.tick()
    made = materializations(ticker.run(tick))
    assert {partition for _, partition in made} == {"beta", None}
    assert {asset for asset, partition in made if partition is None} == {
        "bm25", "faiss", "faiss_idmap", "v_faiss_join", "modules", "symbols_mat", "occurrences_mat", "manifest",
        "published_bundle", "coverage_report",
    }  # fmt: skip
    assert {source.name: source.commit for source in ticker.workbench.manifest.sources}["beta"] == head
    assert [ticker.requested() for _ in range(10)] == [[]] * 10


def test_repositories_between_two_changed_ones_are_in_their_run(ticker):
    for name in ("alpha", "gamma"):
        commit(ticker.workbench, name, f"def {name}():\n    return 2\n")
    tick = ticker.tick()
    assert tick.run_requests[0].tags[CHANGED_TAG] == "alpha, gamma"
    made = materializations(ticker.run(tick))
    assert {partition for _, partition in made} == {"alpha", "beta", "gamma", None}
    assert made["repository_chunks", "beta"]["reused_parts"] == made["repository_chunks", "beta"]["parts"]


def test_a_head_is_asked_for_once_whatever_becomes_of_its_run(ticker):
    commit(ticker.workbench, "beta", "def beta():\n    return 2\n")
    assert ticker.requested() == ["beta"]
    assert [ticker.requested() for _ in range(3)] == [[]] * 3, "its run is queued, going on, or failed"
    commit(ticker.workbench, "beta", "def beta():\n    return 3\n")
    assert ticker.requested() == ["beta"]


def test_a_forced_push_back_and_forth_is_a_change_each_time(ticker):
    folder = ticker.workbench.folder / "repositories" / "beta"
    first = git(folder, "rev-parse", "HEAD")
    second = commit(ticker.workbench, "beta", "def beta():\n    return 2\n")
    for head in (second, first):
        git(folder, "reset", "--quiet", "--hard", head)
        assert ticker.run(ticker.tick()).success
        assert head in {source.commit for source in ticker.workbench.manifest.sources}


def test_a_head_that_moves_while_its_run_waits_is_read_by_that_run(ticker):
    commit(ticker.workbench, "beta", "def beta():\n    return 2\n")
    tick = ticker.tick()
    head = commit(ticker.workbench, "beta", "def beta():\n    return 3\n")
    assert ticker.run(tick).success
    assert head in {source.commit for source in ticker.workbench.manifest.sources}
    assert [ticker.requested() for _ in range(3)] == [[]] * 3


def test_a_rollback_is_not_undone(ticker):
    commit(ticker.workbench, "beta", "def beta():\n    return 2\n")
    assert ticker.run(ticker.tick()).success
    roll_back(ticker.workbench.root, "")
    assert [ticker.requested() for _ in range(3)] == [[]] * 3


def test_a_new_repository_is_read_and_a_removed_one_asked_no_more(ticker):
    workbench = ticker.workbench
    workbench.write("delta/README.md", "# delta\n")
    commit(workbench, "delta", "def delta():\n    return 1\n")
    workbench.configure("delta", "beta")
    assert ticker.requested() == ["delta"]
    assert set(workbench.instance.get_dynamic_partitions("repos")) == {"beta", "delta"}
    assert Watch.parse(ticker.cursor).requested.keys() == {"beta", "delta"}


def test_a_repository_that_is_gone_is_named_asked_ever_more_rarely_and_found_again(ticker, monkeypatch):
    workbench = ticker.workbench
    folder, aside = workbench.folder / "repositories" / "beta", workbench.folder / "aside"
    shutil.move(folder, aside)
    clock, waits = [1_000_000.0], []
    monkeypatch.setattr(module.time, "time", lambda: clock[0])
    for _ in range(8):
        said = ticker.tick().skip_reason.skip_message
        assert "3 repositories, no new head; beta did not answer" in said
        assert "beta does not exist" in said
        until = Watch.parse(ticker.cursor).failing["beta"][1]
        waits.append(round((until - clock[0]) / 60))
        clock[0] = until - 1
        assert "beta does not exist" not in ticker.tick().skip_reason.skip_message, "it was asked too early"
        clock[0] = until
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    commit(workbench, "alpha", "def alpha():\n    return 2\n")
    assert ticker.requested() == ["alpha"], "the others are not held up"
    shutil.move(aside, folder)
    commit(workbench, "beta", "def beta():\n    return 2\n")
    clock[0] += 3600
    assert ticker.requested() == ["beta"]
    assert Watch.parse(ticker.cursor).failing == {}


@pytest.mark.parametrize("what", ["settings", "work folder", "CURRENT"])
def test_where_the_rest_is_stale_all_repositories_are_read(ticker, what):
    workbench = ticker.workbench
    assert not others_are_stale(workbench.project.settings())
    if what == "settings":
        workbench.configure(*NAMES, more="[chunking]\nmax_chars = 900\n")
    elif what == "work folder":
        shutil.rmtree(workbench.project.settings().paths.work)
    else:
        workbench.root.current.write_text("torn")
    commit(workbench, "beta", "def beta():\n    return 2\n")
    result = ticker.run(ticker.tick())
    assert result.success
    assert {partition for _, partition in materializations(result)} == {*NAMES, None}


def test_interval_and_whether_it_starts_by_itself_are_the_settings(workbench):
    def sensor():
        return build_definitions(workbench.project).resolve_sensor_def("git_heads")

    assert sensor().default_status is dg.DefaultSensorStatus.STOPPED
    workbench.configure("alpha", more="[automation]\nwatch_heads = true\nwatch_interval_s = 300\n")
    assert sensor().default_status is dg.DefaultSensorStatus.RUNNING
    assert sensor().minimum_interval_seconds == 300


def test_the_cursor_is_json_that_comes_back():
    watch = Watch({"a": "1" * 40}, {"b": (2, 5.0)})
    assert Watch.parse(watch.cursor()) == watch
    assert Watch.parse(None) == Watch()
    assert json.loads(watch.cursor()).keys() == {"requested", "failing"}


def test_a_remote_is_asked_without_fetching_anything(workbench):
    head = commit(workbench, "alpha", "def alpha():\n    return 1\n")
    url = f"file://{workbench.folder}/repositories/alpha"
    text = f'[sources]\nrepositories = [{{ url = "{url}", name = "far" }}]\n'
    (workbench.folder / "dagster_project.toml").write_text(text)
    ticker = Ticker(workbench)
    assert ticker.requested() == ["far"]
    assert Watch.parse(ticker.cursor).requested == {"far": head}
    assert not workbench.project.settings().paths.store.exists()
    assert subprocess.run(["git", "-C", str(workbench.folder), "status"], capture_output=True, check=False).returncode
