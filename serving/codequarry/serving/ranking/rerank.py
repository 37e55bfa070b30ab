"""Reranking of the first results by a language model, within its budget; any failure leaves them unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from codequarry.schemas.errors import EndpointError
from codequarry.schemas.settings.model_servers import EndpointOptions, ModelServerSettings
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.encoders.client import Breaker, Endpoint
from codequarry.serving.ranking.listwise import Candidate, Chat, listwise_order
from codequarry.serving.ranking.ranking import Placed, Scored
from codequarry.serving.request.deadline import Deadline

RankedT = TypeVar("RankedT", Scored, Placed)

_PATH = "/chat/completions"
_THREADS = 8


class Reranker:
    """Reranker by a language model. Safe to share between threads."""

    def __init__(self, chat: Chat, *, candidates: int, budget_s: float) -> None:
        """Use a language model.

        Args:
            chat: Asks the model.
            candidates: Number of first results that it is shown.
            budget_s: Most seconds for an answer.
        """
        self.candidates = candidates
        self._chat = chat
        self._budget_s = budget_s
        self._breaker = Breaker()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rerank")

    def order(self, query: str, candidates: Sequence[Candidate], deadline: Deadline) -> list[int]:
        """Let the model order candidates.

        Args:
            query: Text of the query.
            candidates: Candidates, best first.
            deadline: Deadline of the request.

        Returns:
            Permutation of the candidates' places.

        Raises:
            EndpointError: The model does not answer in time or in the required form, or it failed a moment ago.
        """
        if len(candidates) < 2:
            return list(range(len(candidates)))
        self._breaker.check()
        budget = min(self._budget_s, deadline.at - deadline.clock())
        try:
            # A thread of its own: socket reads do not know the budget, and one that hangs must not delay others.
            asked = self._pool.submit(listwise_order, query, candidates, self._chat)
            try:
                return asked.result(timeout=max(budget, 0))
            except TimeoutError:
                asked.cancel()
                raise EndpointError(f"no order within {1000 * self._budget_s:.0f} ms") from None
        except EndpointError as error:
            self._breaker.failed(error)
            raise
        except ValueError as error:  # a server that answers needs no rest
            raise EndpointError(str(error)) from error

    def close(self) -> None:
        """Stop sending requests."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def reranker_of(settings: ModelServerSettings) -> Reranker | None:
    """Return the reranker of the settings; None when they name no server for one."""
    options = settings.reranks_by
    if options is None:
        return None
    chat = endpoint_chat(options, settings.reranker_model)
    return Reranker(chat, candidates=settings.reranker_candidates, budget_s=settings.reranker_budget_ms / 1000)


def endpoint_chat(options: EndpointOptions, model: str) -> Chat:
    """Return the chat function of a model behind an OpenAI-compatible endpoint, at temperature 0."""
    return partial(_request_reply, Endpoint(options), model)


def _request_reply(endpoint: Endpoint, model: str, messages: list[dict[str, str]], max_tokens: int) -> str:
    payload = {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0, "stream": False}
    answer = endpoint.post(_PATH, payload)
    try:
        said: Any = cast("Any", answer)["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        said = None
    if not isinstance(said, str):
        raise EndpointError("its answer holds no message")
    return said


def candidate_of(row: ChunkRow) -> Candidate:
    """Return the fields of a chunk that a model sees."""
    return Candidate(row.uri, row.qualified_name or ", ".join(row.symbols), row.text)


def dealt(ranked: Sequence[RankedT], order: Sequence[int]) -> list[RankedT]:
    """Reorder results, and assign the same scores again in descending order.

    Args:
        ranked: Results, best first.
        order: Permutation of the places of the first of them; the others follow unchanged.

    Returns:
        Results in the new order.
    """
    first = [
        replace(one, score=to.score, reranked=to.score / one.score, fused_place=at + 1)
        for to, at, one in ((ranked[place], at, ranked[at]) for place, at in enumerate(order))
    ]
    return [*first, *ranked[len(order) :]]
