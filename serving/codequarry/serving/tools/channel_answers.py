"""Candidates for a search: which channels to ask, their answers, and what became of those that gave none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.errors import DeadlineError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.catalog import present
from codequarry.serving.channels.base import Candidates, ChannelQuery
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.ranking.late import LATE, NO_TIME, Decision, Rescorer, decide, ran, rescore_first, skipped
from codequarry.serving.ranking.ranking import Scored, channel_weights
from codequarry.serving.request.trace import saw_candidates, saw_degraded, saw_gate, stage
from codequarry.serving.text.query_classes import NAMES, Query
from codequarry.serving.version.open import Bundle

logger = logging.getLogger(__name__)

Answers = Mapping[str, Candidates]
"""Candidates by channel."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """One search, checked and read: what is asked, of which version, of which channels, and until when."""

    bundle: Bundle
    request: SearchRequest
    settings: ServingSettings
    asked: ChannelQuery
    """Analyzed query, filter and deadline, as every channel gets them."""
    weights: Mapping[str, float]
    """Weights of the channels that take part, in the order in which they are asked."""

    @property
    def query(self) -> Query:
        """Analyzed query."""
        return self.asked.query

    @property
    def hybrid(self) -> bool:
        """True when several channels are asked and ranked together."""
        return self.request.channel == "hybrid"

    @property
    def asked_first(self) -> Sequence[str]:
        """Channels that are asked for candidates.

        In hybrid, late interaction scores the results of the others, unless no other channel is available or the
        settings let it find its own.
        """
        if not self.hybrid or self.settings.late_mode == "wide":
            return list(self.weights)
        return [name for name in self.weights if name != LATE] or list(self.weights)


def weigh_channels(
    bundle: Bundle, channel: str, query: Query, multipliers: Mapping[str, float]
) -> tuple[dict[str, float], list[str]]:
    """Choose the channels of a search.

    Args:
        bundle: The version.
        channel: Channel of the request, or ``hybrid``.
        query: Analyzed query.
        multipliers: Multipliers of the profile's weights by channel, in the order in which channels are asked.

    Returns:
        The weight of every channel to ask, and notes for the caller.
    """
    if channel != "hybrid":
        if channel in bundle.channels:
            return {channel: 1.0}, []
        return {}, [f"channel {channel} is not served; served are {present.sentence_list(bundle.channels)}"]
    multipliers = {name: one for name, one in multipliers.items() if name in bundle.channels}
    notes = [] if any(multipliers.values()) else ["no channel can answer: all are off or have weight 0"]
    weights = channel_weights(bundle.profile.classes[query.kind], multipliers)
    if not (query.qualified or query.plain):
        weights["symbol"] = 0.0
    positive = {name: weight for name, weight in weights.items() if weight > 0}
    # A class of queries may need only channels that this version lacks; then all available ones are used.
    return positive or {name: one for name, one in multipliers.items() if one > 0}, notes


def ask_channels(plan: SearchPlan) -> tuple[dict[str, Candidates], list[str]]:
    """Ask the channels of a search for candidates.

    Args:
        plan: The search.

    Returns:
        Candidates of every channel that answered, and notes for the caller.

    Raises:
        DeadlineError: No channel answered in time.
    """
    answers: dict[str, Candidates] = {}
    notes: list[str] = []
    without: list[str] = []
    deadline = plan.asked.deadline.within(plan.settings.stage1_budget_ms)
    for place, name in enumerate(plan.asked_first):
        wide = name == LATE and plan.hybrid
        limit = plan.settings.late_candidates if wide else plan.asked.limit
        # The first channel has the whole time of the search: a late answer is worth more than none.
        asked = replace(plan.asked, limit=limit, deadline=deadline if place else plan.asked.deadline)
        reply = _ask_channel(name, partial(plan.bundle.channels[name].search, asked))
        notes += reply.notes
        if reply.candidates is not None:
            if (far := _too_far(plan, name, reply.candidates)) is None:
                answers[name] = reply.candidates
            else:
                notes.append(far)
        elif reply.out_of_time:
            without.append(name)
    for name in without:
        saw_degraded(name)
    seconds = deadline.seconds
    if without and not answers:
        raise DeadlineError(
            f"no channel answered within {seconds:g} s", suggestion="call again, or ask a single channel"
        )
    if without:
        notes.append(f"stopped after {seconds:g} s, without channel {present.sentence_list(without)}")
    return answers, notes


def _too_far(plan: SearchPlan, name: str, found: Candidates) -> str | None:
    """Return the note for a dense channel whose nearest vector is too far to count; None for any other."""
    least = plan.settings.semantic_min_score
    if not plan.hybrid or name not in DENSE_LEGS or not len(found.scores) or found.scores[0] >= least:
        return None
    saw_gate(name, "left out: similarity")
    nearest = f"its nearest vector has a similarity of {found.scores[0]:.2f}, below semantic_min_score {least:g}"
    return f"channel {name} is left out: {nearest}"


class _Reply(NamedTuple):
    """Outcome of asking one channel."""

    candidates: Candidates | None
    notes: Sequence[str] = ()
    out_of_time: bool = False


def _ask_channel(name: str, ask: Callable[[], Candidates]) -> _Reply:
    """Ask one channel; a failure of any kind becomes a note."""
    try:
        with stage(name):
            candidates = ask()
    except UnavailableError as error:
        saw_degraded(name)
        return _Reply(None, [f"channel {name} is off: {error.message}"])
    except DeadlineError:
        return _Reply(None, out_of_time=True)
    except Exception:  # whatever breaks inside one index must not take the others' answer away
        saw_degraded(name)
        logger.exception("channel %s failed", name)
        return _Reply(None, [f"channel {name} failed on this query; the server's log says why"])
    saw_candidates(name, candidates.chunk_ids, candidates.scores)
    return _Reply(candidates, candidates.notes)


def complete_names(plan: SearchPlan, answers: Answers) -> tuple[Answers, list[str]]:
    """Let BM25 score the definitions of a name that is the whole query.

    Hundreds of chunks may hold the one word and score alike. The definition is often not among the candidates, and
    would get nothing although the last candidate gets nearly as much as the first.

    Args:
        plan: The search.
        answers: Candidates by channel.

    Returns:
        Candidates by channel, with more of BM25, and notes for the caller.
    """
    lexical, found = plan.bundle.channels.get("bm25"), answers.get("bm25")
    if found is None or len(found.chunk_ids) < plan.asked.limit or plan.query.kind not in NAMES:
        return answers, []
    if "symbol" not in answers or not isinstance(lexical, Bm25Channel):
        return answers, []
    try:
        return {**answers, "bm25": lexical.complete(plan.asked, found, answers["symbol"].chunk_ids)}, []
    except UnavailableError as error:
        return answers, [f"channel bm25 is off: {error.message}"]


def find_phrases(plan: SearchPlan) -> tuple[np.ndarray, list[str]]:
    """Find chunks that hold the query's words one after the other.

    Args:
        plan: The search.

    Returns:
        (m,) int64, sorted; and notes for the caller.
    """
    lexical = plan.bundle.channels.get("bm25")
    if "bm25" not in plan.weights or not isinstance(lexical, Bm25Channel):
        return np.empty(0, np.int64), []
    try:
        return lexical.holding_phrase(plan.query), []
    except UnavailableError as error:
        return np.empty(0, np.int64), [f"channel bm25 is off: {error.message}"]


class LateReply(NamedTuple):
    """Outcome of late interaction."""

    decision: str
    """The decision with its reason; "" when the version has no index for late interaction."""
    candidates: Candidates | None = None
    """Its candidates; None when it was not asked, or gave none."""
    notes: Sequence[str] = ()


def interact_late(
    plan: SearchPlan, answers: Answers, ordered: Sequence[Scored], decided: Decision | None = None
) -> LateReply:
    """Score the first results by late interaction if that is worth its cost.

    Args:
        plan: The search.
        answers: Candidates of the channels that were asked.
        ordered: Their ranking, best first.
        decided: The decision, where several versions are searched together; None to make it here.

    Returns:
        The decision, and what came of it.
    """
    channel, deadline = plan.bundle.channels.get(LATE), plan.asked.deadline.within(plan.settings.stage2_budget_ms)
    if plan.bundle.manifest.warp is None and channel is None:
        return LateReply("")
    reply = _Reply(None)
    if LATE in answers:
        decision = ran("every query" if len(answers) > 1 else "no other channel was asked")
    elif not isinstance(channel, Rescorer):
        decision = skipped("the channel is off")
    elif not plan.weights.get(LATE):
        decision = skipped("it has no weight")
    else:
        decision = decided or decide(ordered, answers, deadline, plan.settings)
        if decision.runs:
            asked, count = replace(plan.asked, deadline=deadline), plan.settings.late_rescored
            reply = _ask_channel(LATE, partial(rescore_first, channel, asked, ordered, count))
            if reply.candidates is None:
                decision = skipped(NO_TIME if reply.out_of_time else "the channel is off")
    notes = list(reply.notes)
    if decision.why == NO_TIME:
        saw_degraded(LATE)
        notes.append(f"stopped after {deadline.seconds:g} s, without channel {LATE}")
    saw_gate(LATE, decision.verdict)
    return LateReply(str(decision), reply.candidates, notes)
