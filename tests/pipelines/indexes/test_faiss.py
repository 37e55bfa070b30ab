"""Every rung of the dense index's ladder, its thresholds forced down: built, published, opened, searched, explained."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.schemas.bundle.faiss_tuning import FaissTuning, read_tuning
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.faiss_search import Effort
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.file_checks import check_version
from codequarry.serving.version.open import Bundle
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.indexes.test_faiss_gpu import stand_in
from tests.pipelines.repositories import commit
from tests.pipelines.test_incremental import contents, from_nothing, small_shards
from tests.serving.channels.ask_channel import ask_channel

__all__ = ["small_shards", "stand_in"]  # fixtures
WORDS = (
    "parse render fetch store merge count order index close write token price session queue retry cursor window "
    "packet shard vector digest branch commit tensor kernel socket buffer thread module lexer"
).split()
GRAPH = {"faiss_graph_from": 20, "faiss_lists_from": 10_000, "faiss_coarse_from": 10_000}
LISTS = {**GRAPH, "faiss_lists_from": 30}
COARSE = {**LISTS, "faiss_coarse_from": 40}
RUNGS: dict[str, tuple[dict[str, object], str, int]] = {
    "graph": (GRAPH, "faiss_hnsw_sq8", 1),
    "lists": (LISTS, "faiss_ivf_pq", 1),
    "lists of a GPU": ({**LISTS, "faiss_gpu": True}, "faiss_ivf_sq8", 1),
    "coarse": (COARSE, "faiss_ivf_sq8", 1),
    "shards": ({**COARSE, "faiss_shard_vectors": 100}, "faiss_ivf_rabitq_refinesq8", 3),
    "turned": ({"faiss_factory": "OPQ16,IVF8,PQ32x4"}, "faiss_opq_ivf_pq", 1),
}
"""Settings, source in answers, files."""


def functions(number: int, count: int = 6) -> str:
    """A file of functions whose words differ."""
    dice, found = random.Random(number), []
    for place in range(count):
        verb, thing, other, last = dice.sample(WORDS, 4)
        found.append(
            f'def {verb}_{thing}_{number}_{place}({other}, {last}):\n    """{verb.title()} the {thing} of a {other} '
            f'before its {last}."""\n    return {other}.{verb}({last}, {number})\n'
        )
    return "\n\n".join(found)


def write_app(folder: Path, files: int = 50) -> Path:
    commit(folder / "app", {f"pkg{number % 5}/mod{number}.py": functions(number) for number in range(files)})
    return folder / "app"


@pytest.fixture
def ladder(tmp_path: Path, make_settings: MakeSettings):
    """``ladder(indexes)``: settings over one small repository."""
    app = write_app(tmp_path)

    def make(indexes: dict[str, object]) -> Settings:
        made = make_settings(app, indexes=indexes, chunking={"merge_chars": 1}, scip={"enabled": False})
        return made.model_copy(update={"paths": made.paths.model_copy(update={"store": tmp_path / "store"})})

    return make


def tuning_of(report: IndexReport) -> FaissTuning:
    found = read_tuning(BundlePaths(report.path).tuning)
    assert found is not None
    return found


def exact(paths: BundlePaths) -> tuple[np.ndarray, np.ndarray]:
    """Ids and vectors, of the tables alone."""
    tables = [read_table(file) for file in paths.table_files("embeddings")]
    ids = np.concatenate([table["chunk_id"].to_numpy() for table in tables])
    return ids, np.stack([row for table in tables for row in table["vector"].to_pylist()])


def neighbours(channel: FaissChannel, query: str, **asked: Effort) -> list[int]:
    return ask_channel(channel, query, 10, **asked).chunk_ids.tolist()


@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_from_the_repository_to_the_answer(ladder, rung: str, request: pytest.FixtureRequest) -> None:
    indexes, source, files = RUNGS[rung]
    if "GPU" in rung:
        request.getfixturevalue("stand_in")
    report = index_repositories(ladder(indexes))
    assert report.warnings == ()
    paths, count = BundlePaths(report.path), report.manifest.counts.chunks
    assert count > 200
    assert len(paths.faiss_indexes()) == files
    assert [check.name for check in check_version(paths, report.manifest) if not check.passed] == []
    tuning = tuning_of(report)
    assert (tuning.vectors, tuning.factory) == (count, report.manifest.faiss.factory)
    found = [(point.comparisons, point.recall) for point in tuning.frontier]
    assert found == sorted(found)
    assert len({recall for _, recall in found}) == len(found)
    assert tuning.chosen in tuning.frontier
    assert tuning.chosen.recall >= tuning.floor

    engine = Engine(Bundle.open_current(report.path.parents[1]), ServingSettings())
    channel = engine.bundle.channels["faiss"]
    assert isinstance(channel, FaissChannel)
    ids, vectors = exact(paths)
    recalls: list[float] = []
    for number in range(40):
        query = " ".join(random.Random(-number).sample(WORDS, 3))
        scores = vectors @ ask_channel(channel, query, 1).vector
        best = np.sort(scores)[::-1][9]
        score = dict(zip(ids.tolist(), scores.tolist(), strict=True))
        recalls.append(sum(score[one] >= best - 1e-5 for one in neighbours(channel, query)) / 10)
    assert np.mean(recalls) >= 0.95
    answer = engine.search(SearchRequest(query="merge the session before its window", channel="faiss", explain=True))
    assert answer.limits == []
    assert {result.source for result in answer.results} == {source}
    assert answer.results[0].metadata.explain.channels["faiss"].rank == 1
    hybrid = engine.search(SearchRequest(query="merge the session before its window", explain=True))
    assert any("faiss" in result.metadata.explain.channels for result in hybrid.results)
    narrowed = ask_channel(channel, "merge", 5, allowed=np.sort(ids[:50]))
    assert set(narrowed.chunk_ids.tolist()) <= set(ids[:50].tolist())
    engine.close()


def test_a_gpu_that_is_not_there_is_a_warning_and_the_ladder_that_of_the_cpu(ladder) -> None:
    report = index_repositories(ladder({**COARSE, "faiss_gpu": True}))
    assert "_HNSW32," in report.manifest.faiss.factory
    (warning,) = report.warnings
    assert warning.startswith(f"building {report.manifest.faiss.factory} of ")
    assert "though the settings ask for a GPU: the installed FAISS is the one for the CPU" in warning


def test_below_the_first_rung_the_shards_are_exact_and_shared(ladder, tmp_path: Path) -> None:
    report = index_repositories(ladder({}))
    assert (report.manifest.faiss.factory, report.manifest.faiss.exact) == ("Flat", True)
    tuning = read_tuning(BundlePaths(report.path).tuning)
    assert tuning is not None and tuning.bounds == {}
    chunks = report.manifest.counts.chunks
    assert (tuning.chosen.recall, tuning.chosen.comparisons, tuning.vectors) == (1.0, chunks, chunks)


@pytest.mark.parametrize("rung", ["graph", "lists", "shards"])
def test_building_from_nothing_gives_the_same_bytes(ladder, tmp_path: Path, rung: str) -> None:
    made = ladder(RUNGS[rung][0])
    first = index_repositories(made)
    assert contents(first) == contents(from_nothing(made, tmp_path))


def test_what_is_deleted_leaves_the_index_and_the_tables_of_other_files_stay(
    ladder, tmp_path: Path, small_shards: None, stand_in: list[str]
) -> None:
    made = ladder({**LISTS, "faiss_gpu": True})
    first = index_repositories(made)
    engine = Engine(Bundle.open_current(made.bundle.root), ServingSettings())
    gone = functions(7).split("(")[0].removeprefix("def ")
    before = engine.search(SearchRequest(query=gone.replace("_", " "), channel="faiss", top_k=50, explain=True))
    engine.close()
    assert any("mod7.py" in result.metadata.uri for result in before.results)
    for number in (2, 7, 12):
        (tmp_path / "app" / "pkg2" / f"mod{number}.py").unlink()
    commit(tmp_path / "app", {"step.txt": "1\n"})
    second = index_repositories(made)
    assert second.manifest.faiss.factory != first.manifest.faiss.factory  # four lists for each root of a chunk
    assert second.reused_shards >= len(second.manifest.shards) - 4 > 10
    engine = Engine(Bundle.open_current(made.bundle.root), ServingSettings())
    after = engine.search(SearchRequest(query=gone.replace("_", " "), channel="faiss", top_k=50, explain=True))
    engine.close()
    assert not any("mod7.py" in result.metadata.uri for result in after.results)


@pytest.fixture
def listed(ladder) -> Iterator[Engine]:
    """An engine over an IVF index whose tuning reads few lists."""
    made = ladder({**LISTS, "faiss_recall": 0.0})
    index_repositories(made)
    engine = Engine(Bundle.open_current(made.bundle.root), ServingSettings())
    yield engine
    engine.close()


def test_a_query_may_read_more_lists_within_bounds(listed: Engine) -> None:
    channel = listed.bundle.channels["faiss"]
    assert isinstance(channel, FaissChannel)
    (low, high) = channel.bounds["nprobe"]
    assert (low, channel.bounds.keys()) == (1, {"nprobe"})
    ids, vectors = exact(listed.bundle.paths)
    query = "merge the session before its window"
    vector = ask_channel(channel, query, 1).vector
    assert vector is not None
    best = ids[np.lexsort((ids, -(vectors @ vector)))][:10].tolist()
    few = neighbours(channel, query)
    assert set(few) != set(best)
    assert neighbours(channel, query, effort=Effort(nprobe=high)) == best
    assert neighbours(channel, query) == few  # nothing of it stays
    beyond = ask_channel(channel, query, 10, effort=Effort(nprobe=10**6, ef_search=3))
    assert (beyond.chunk_ids.tolist(), beyond.notes) == (best, (f"nprobe clamped to {high}",))


def test_thresholds_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="faiss_graph_from <= faiss_lists_from"):
        Settings.model_validate({"indexes": {"faiss_graph_from": 300_000}})
