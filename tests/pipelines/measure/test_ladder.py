"""Which ways of asking a bundle allows, and what is compared with what."""

from __future__ import annotations

from codequarry.pipelines.measure.ladder import RERANKED, STAGED, comparisons, how_to_ask, rungs, runs_of, strangers
from codequarry.schemas.settings.load import ServingSettings

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
    assert "reranker_endpoint" in whole[-1]["reason"]
    reranked = rungs(runs_of(WITH_WARP, (), reranks=True), WITH_WARP, reranks=True)
    assert (reranked[-1]["run"], reranked[-1]["against"]) == (RERANKED, "hybrid")
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
    assert (serving.weight_bm25, serving.weight_symbol, serving.weight_splade) == (0.0,) * 3
    assert serving.weight_faiss == ServingSettings().weight_faiss
    assert how_to_ask("bm25", serving) == ("bm25", serving)
    assert how_to_ask(RERANKED, serving) == ("hybrid", serving.model_copy(update={"reranker_always": True}))
    assert not how_to_ask("hybrid", ServingSettings(reranker_always=True))[1].reranker_always
    assert strangers(STAGED, {"faiss", "warp"}) == []
    assert strangers(STAGED, {"faiss", "bm25"}) == ["bm25"]
    assert strangers("hybrid", {"faiss", "bm25"}) == []
    without = rungs(["faiss", "warp", "hybrid"], WITH_WARP)
    assert (without[2]["run"], without[3]["against"]) == ("", "warp")


def test_the_second_dense_leg_belongs_to_the_dense_stage() -> None:
    served = ("faiss", "faiss2", "warp", "bm25")
    assert runs_of(served, ()) == ["faiss", "faiss2", "warp", "bm25", STAGED, "hybrid"]
    assert strangers(STAGED, {"faiss", "faiss2", "warp"}) == []


def test_the_last_rung_waits_for_a_language_model() -> None:
    without = rungs(runs_of(DEFAULT, ()), DEFAULT)[-1]
    assert (without["run"], "reranker_endpoint" in without["reason"]) == ("", True)
    last = rungs(runs_of(DEFAULT, (), reranks=True), DEFAULT, reranks=True)[-1]
    assert (last["run"], last["against"], last["reason"]) == (RERANKED, "hybrid", "")
