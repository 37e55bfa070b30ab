"""The ablation ladder: which ways of asking are compared, and which of them a bundle can be asked in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import Channel

HYBRID: Channel = "hybrid"
STAGED = "faiss+warp"
"""The run of rung C: hybrid with the other channels off."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder."""

    letter: str
    title: str
    run: str
    """Name of the run that shows it; "" when none can."""
    needs: tuple[str, ...]
    """Channels that have to be served."""


LADDER = (
    Rung("A", "dense", "faiss", ("faiss",)),
    Rung("B", "WARP", "warp", ("warp",)),
    Rung("C", "dense, then WARP", STAGED, ("faiss", "warp")),
    Rung("D", "C and sparse fusion", HYBRID, ()),
    Rung("E", "D and LLM rerank", "", ()),
)
_NO_RERANKER = "no LLM reranker is part of the search yet"
ALONE: tuple[Channel, ...] = ("faiss", "faiss2", "warp", "splade", "bm25", "symbol")
_CHANNELS: dict[str, Channel] = {name: name for name in ALONE}


def runs_of(served: Collection[str], wanted: Collection[str]) -> list[str]:
    """Names of the runs that a bundle allows, hybrid last. wanted: channels that the caller names; empty for all."""
    runs = [name for name in ALONE if name in served]
    if {"faiss", "warp"} <= set(served):
        runs.append(STAGED)
    return [name for name in (*runs, HYBRID) if not wanted or name in wanted]


def strangers(run: str, channels: Collection[str]) -> list[str]:
    """Channels that gave results to a run that is to leave them out. channels: those that found any."""
    return sorted(set(channels) - set(STAGED.split("+"))) if run == STAGED else []


def rungs(ran: Collection[str], served: Collection[str]) -> list[dict[str, str]]:
    """The ladder as the summary has it: the run that shows each rung and the one before, or why there is none.

    ran: the runs that were made and are what their name says.
    """
    found: list[dict[str, str]] = []
    before = ""
    for rung in LADDER:
        missing = [name for name in rung.needs if name not in served]
        reason = ""
        if not rung.run:
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
    """Pairs of runs (this, against that): every rung and the one before, and hybrid and each channel alone."""
    pairs = [(rung["run"], rung["against"]) for rung in ladder if rung["run"] and rung["against"]]
    pairs += [(HYBRID, name) for name in ran if HYBRID in ran and name != HYBRID]
    return list(dict.fromkeys(pairs))


def how_to_ask(run: str, serving: ServingSettings) -> tuple[Channel, ServingSettings]:
    """The channel argument and the settings under which a run is asked."""
    if run != STAGED:
        return _CHANNELS.get(run, HYBRID), serving
    others = {f"weight_{name}": 0.0 for name in ALONE if name not in STAGED.split("+")}
    known = {name: weight for name, weight in others.items() if name in ServingSettings.model_fields}
    return HYBRID, serving.model_copy(update=known)
