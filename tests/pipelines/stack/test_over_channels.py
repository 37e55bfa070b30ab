"""Late interaction and learned sparse search over a delta version: both indexes are asked, and ranked as one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.schemas.wire.search import Channel, SearchFilters, SearchRequest, SearchResult
from codequarry.serving.channels.base import ChannelQuery
from codequarry.serving.engine.engine import Engine
from codequarry.serving.stack.stacked_channels import StackedSplade, StackedWarp
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.version.file_checks import check_version
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.embed.sparse_models import write_model
from tests.pipelines.repositories import commit
from tests.pipelines.stack.test_answers import Edit, apply, tree, with_large_deltas

EDITS: tuple[Edit, ...] = (
    ("edit", 3, 91), ("append", 8, 5), ("add", 2, 12), ("delete", 20, 0), ("rename", 30, 7),
)  # fmt: skip
QUERIES = ("where are things merged and counted", "call the special one", "open the index, then close it", "fetch")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channels")
    commit(folder / "app", tree())
    write_model(folder / "model")
    return folder


@pytest.fixture
def pair(home: Path, make_settings: MakeSettings, tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    """Engines over a delta version and a complete one of the same changed tree."""

    def settings(name: str) -> Settings:
        made = make_settings(
            tmp_path / "app",
            home=tmp_path / name,
            warp={"enabled": True},
            splade={"enabled": True, "model": str(home / "model")},
        )
        return with_large_deltas(made)

    commit(tmp_path / "app", tree())
    over, whole = settings("over"), settings("whole")
    index_repositories(over)
    for edit in EDITS:
        apply(tmp_path / "app", edit)
    report = index_changes(over)
    assert isinstance(report, IndexReport), report
    assert [check for check in check_version(BundlePaths(report.path), report.manifest) if not check.passed] == []
    index_repositories(whole)
    with (
        closing(Engine.open(over.bundle.root, ServingSettings())) as ours,
        closing(Engine.open(whole.bundle.root, ServingSettings())) as theirs,
    ):
        yield ours, theirs


def results_of(engine: Engine, channel: Channel, query: str, **filters: object) -> list[SearchResult]:
    asked = SearchRequest(
        query=query, channel=channel, top_k=20, explain=True, filters=SearchFilters.model_validate(filters)
    )
    return engine.search(asked).results


def test_rankings_scores_and_explanations_are_those_of_a_complete_version(pair: tuple[Engine, Engine]) -> None:
    ours, _ = pair
    assert isinstance(ours.bundle.channels["warp"], StackedWarp)
    assert isinstance(ours.bundle.channels["splade"], StackedSplade)
    assert ours.bundle.problems() == {}
    counts = [{name: each.counts() for name, each in one.bundle.channels.items()} for one in pair]
    assert counts[0] == counts[1]
    channels: tuple[Channel, ...] = ("warp", "splade")
    for channel in channels:
        for query in QUERIES:
            for filters in ({}, {"include": ["**/*.py"], "exclude": ["pkg0/**"]}):
                mine, wanted = (results_of(one, channel, query, **filters) for one in pair)
                assert [one.id for one in mine] == [one.id for one in wanted], (channel, query)
                assert wanted or channel == "splade"
                np.testing.assert_allclose([one.score for one in mine], [one.score for one in wanted], rtol=1e-5)
                for one, other in zip(mine, wanted, strict=True):
                    assert one.metadata.explain and other.metadata.explain
                    assert one.metadata.explain.tokens == other.metadata.explain.tokens
                    assert one.metadata.explain.terms == other.metadata.explain.terms


def test_chunks_of_both_are_scored_anew(pair: tuple[Engine, Engine]) -> None:
    asked = ChannelQuery(analyze_query(QUERIES[0]), 10)
    ids = np.append(pair[1].bundle.directory.chunk_ids, 17)
    scores = [channel.rescore(asked, ids) for one in pair if (channel := one.bundle.channels["warp"])]  # pyright: ignore
    np.testing.assert_allclose(*scores, rtol=1e-5)
    assert np.isnan(scores[0][-1]) and not np.isnan(scores[0][:-1]).any()
