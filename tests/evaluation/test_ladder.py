"""Which ways of asking a bundle allows, and what is compared with what."""

from __future__ import annotations

from codequarry.assets.asking import stage_times
from codequarry.assets.ladder import STAGED, comparisons, how_to_ask, rungs, runs_of, strangers
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import BundleInfo, SearchAnswer

DEFAULT = ("faiss", "bm25", "symbol")
WITH_WARP = ("faiss", "warp", "bm25")


def test_runs_follow_the_channels_that_are_served() -> None:
    assert runs_of(DEFAULT, ()) == ["faiss", "bm25", "symbol", "hybrid"]
    assert runs_of(WITH_WARP, ()) == ["faiss", "warp", "bm25", STAGED, "hybrid"]
    full = ("faiss", "faiss2", "bm25", "symbol", "warp", "splade")
    assert runs_of(full, ()) == ["faiss", "faiss2", "warp", "splade", "bm25", "symbol", STAGED, "hybrid"]
    assert runs_of(DEFAULT, ("hybrid", "bm25")) == ["bm25", "hybrid"]
    assert runs_of(DEFAULT, ("warp",)) == []


def test_each_rung_is_compared_with_the_one_before_that_could_run() -> None:
    told = {rung["rung"]: (rung["run"], rung["against"]) for rung in rungs(runs_of(DEFAULT, ()), DEFAULT)}
    assert told == {
        "A": ("faiss", ""),
        "B": ("", "faiss"),
        "C": ("", "faiss"),
        "D": ("hybrid", "faiss"),
        "E": ("", "hybrid"),
    }
    whole = rungs(runs_of(WITH_WARP, ()), WITH_WARP)
    assert [rung["run"] for rung in whole] == ["faiss", "warp", STAGED, "hybrid", ""]
    assert [rung["against"] for rung in whole] == ["", "faiss", "warp", STAGED, "hybrid"]
    assert all(bool(rung["run"]) != bool(rung["reason"]) for rung in whole)
    pairs = comparisons(runs_of(WITH_WARP, ()), whole)
    assert pairs == [
        ("warp", "faiss"), (STAGED, "warp"), ("hybrid", STAGED),
        ("hybrid", "faiss"), ("hybrid", "warp"), ("hybrid", "bm25"),
    ]  # fmt: skip


def test_the_staged_rung_leaves_the_other_channels_out_or_is_not_shown() -> None:
    channel, serving = how_to_ask(STAGED, ServingSettings())
    assert channel == "hybrid"
    assert (serving.weight_bm25, serving.weight_symbol, serving.weight_faiss2, serving.weight_splade) == (0.0,) * 4
    assert serving.weight_faiss == ServingSettings().weight_faiss
    assert how_to_ask("bm25", serving) == ("bm25", serving)
    assert strangers(STAGED, {"faiss", "warp"}) == []
    assert strangers(STAGED, {"faiss", "bm25"}) == ["bm25"]
    assert strangers("hybrid", {"faiss", "bm25"}) == []
    without = rungs(["faiss", "warp", "hybrid"], WITH_WARP)
    assert (without[2]["run"], without[3]["against"]) == ("", "warp")


class Telling(SearchAnswer):
    """An answer that tells how long its stages took."""

    timings_ms: dict[str, float]


def test_stages_are_reported_where_an_answer_tells_them() -> None:
    info = BundleInfo(version="v", created="c", commits={})
    silent = SearchAnswer(results=[], queryEcho="q", top_k=1, limits=[], bundle=info)
    assert stage_times(silent) == {}
    told = Telling(**silent.model_dump(), timings_ms={"faiss": 1.5})
    assert stage_times(told) == {"faiss": 1.5}
