"""The ablation ladder: the ways of asking that are compared, and those that a bundle supports."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import Channel

HYBRID: Channel = "hybrid"
STAGED = "faiss+warp"
"""The run of rung C: hybrid with the other channels off."""
RERANKED = "hybrid+rerank"
"""The run of rung E: hybrid, its first results in the order of a language model."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder."""

    letter: str
    title: str
    run: str
    """Name of the run that shows it."""
    needs: tuple[str, ...]
    """Requirements: channels, and ``llm``."""


LADDER = (
    Rung("A", "dense", "faiss", ("faiss",)),
    Rung("B", "WARP", "warp", ("warp",)),
    Rung("C", "dense, then WARP", STAGED, ("faiss", "warp")),
    Rung("D", "C and sparse fusion", HYBRID, ()),
    Rung("E", "D and LLM rerank", RERANKED, ()),
)
_NO_RERANKER = "no language model is configured: set [serving] reranker_endpoint and reranker_model"
ALONE: tuple[Channel, ...] = ("faiss", "faiss2", "warp", "splade", "bm25", "symbol")
_CHANNELS: dict[str, Channel] = {name: name for name in ALONE}
_STAGED_CHANNELS = (*DENSE_LEGS, "warp")


def runs_of(served: Collection[str], wanted: Collection[str], *, reranks: bool = False) -> list[str]:
    """Return the names of the runs that a bundle supports, the single channels first.

    Args:
        served: Channels that the bundle serves.
        wanted: Runs that the caller names; empty for all.
        reranks: There is a language model to ask.

    Returns:
        Names of the runs.
    """
    runs: list[str] = [name for name in ALONE if name in served]
    if {"faiss", "warp"} <= set(served):
        runs.append(STAGED)
    runs += [HYBRID, *([RERANKED] if reranks else [])]
    return [name for name in runs if not wanted or name in wanted]


def strangers(run: str, channels: Collection[str]) -> list[str]:
    """Return the channels that gave results to a run that is to leave them out.

    Args:
        run: Name of the run.
        channels: Channels that found any result.

    Returns:
        Such channels, sorted.
    """
    return sorted(set(channels) - set(_STAGED_CHANNELS)) if run == STAGED else []


def rungs(ran: Collection[str], served: Collection[str], *, reranks: bool = False) -> list[dict[str, str]]:
    """Return the ladder as the summary has it: the run that shows each rung and the one before, or why there is none.

    Args:
        ran: Runs that were made and are what their name says.
        served: Channels that the bundle serves.
        reranks: There is a language model to ask.

    Returns:
        One record for each rung.
    """
    found: list[dict[str, str]] = []
    before = ""
    for rung in LADDER:
        missing = [name for name in rung.needs if name not in served]
        reason = ""
        if rung.run == RERANKED and not reranks:
            reason = _NO_RERANKER
        elif missing:
            reason = f"the bundle has no channel {' and '.join(missing)}"
        elif rung.run not in ran:
            reason = "not asked for, or hybrid cannot be asked without the other channels"
        run = "" if reason else rung.run
        found.append({"rung": rung.letter, "title": rung.title, "run": run, "against": before, "reason": reason})
        before = run or before
    return found


def comparisons(ran: Collection[str], ladder: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return pairs of runs (this, against that): every rung and the one before, and hybrid and each channel alone."""
    pairs = [(rung["run"], rung["against"]) for rung in ladder if rung["run"] and rung["against"]]
    pairs += [(HYBRID, name) for name in ran if HYBRID in ran and name != HYBRID]
    return list(dict.fromkeys(pairs))


def how_to_ask(run: str, serving: ServingSettings) -> tuple[Channel, ServingSettings]:
    """Return the channel argument and the settings under which a run is asked."""
    serving = serving.model_copy(update={"reranker_always": run == RERANKED})
    if run != STAGED:
        return _CHANNELS.get(run, HYBRID), serving
    others = {f"weight_{name}": 0.0 for name in ALONE if name not in _STAGED_CHANNELS}
    known = {name: weight for name, weight in others.items() if name in ServingSettings.model_fields}
    return HYBRID, serving.model_copy(update=known)
