"""Model servers: their addresses, the limits of calls to one, and those that the service may call.

Without an address in the settings the service calls nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""Pattern of the name of an environment variable, in settings that name one."""


def checked_url(url: str) -> str:
    """Check the base address of a server.

    >>> checked_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'

    Args:
        url: The address.

    Returns:
        The address, without a slash at its end.

    Raises:
        ValueError: It is not such an address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address such as http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected an address without credentials: the key comes from the environment")
    if parts.query or parts.fragment:
        raise ValueError("expected an address without ? and #")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Address of a server, and the limits of calls to it."""

    url: str
    """The address, as `checked_url` gives it."""
    key_variable: str = ""
    """Environment variable that holds the key; none is sent when it is not set."""
    timeout_s: float = 60.0
    """Longest time one attempt may take."""
    retries: int = 0
    """Attempts after the first one, of a request that failed in passing."""
    batch: int = 32
    """Texts of one request."""
    concurrency: int = 4
    """Requests under way at once."""


class ModelServerSettings(StrictModel):
    """Part of ``[serving]``."""

    query_endpoint: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="Address of the OpenAI-compatible server that encodes queries, of versions whose vectors such a "
        "server made; when empty nobody is called, and those versions are searched without vectors.",
    )
    query_endpoint_key: Annotated[str, Reach.SECRET] = Field(
        default="CODEQUARRY_QUERY_KEY",
        pattern=ENV_NAME,
        description="Environment variable that holds the key for it.",
    )
    query_endpoint_timeout_s: float = Field(
        default=2.0, gt=0, le=60, description="How long a query's vector may take to come back."
    )
    reranker_endpoint: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="Address of the OpenAI-compatible server whose language model may reorder the first results; when "
        "empty nobody is called.",
    )
    reranker_model: Annotated[str, Reach.MODEL] = Field(
        default="",
        description="What that server calls the model, e.g. nomic-ai/CodeRankLLM. Without an endpoint, for codequarry "
        "evaluate alone: a model of the extra transformers, by its id or folder.",
    )
    reranker_key: Annotated[str, Reach.SECRET] = Field(
        default="CODEQUARRY_RERANKER_KEY",
        pattern=ENV_NAME,
        description="Environment variable that holds the key for it.",
    )
    reranker_budget_ms: int = Field(
        default=300, ge=1, le=600_000, description="How long it may take; then the order is that of the fusion."
    )
    reranker_candidates: int = Field(
        default=30, ge=2, le=200, description="So many of the first results it is shown; more than 30 in windows."
    )
    reranker_always: bool = Field(
        default=False,
        description="Ask it in every search; otherwise only semantic_search_pro does, and codequarry search with "
        "--rerank-model.",
    )

    @field_validator("query_endpoint", "reranker_endpoint")
    @classmethod
    def _address(cls, value: str) -> str:
        return checked_url(value) if value else value

    @model_validator(mode="after")
    def _reranker_is_whole(self) -> Self:
        if self.reranker_endpoint and not self.reranker_model:
            raise ValueError("reranker_endpoint needs reranker_model: what the server calls the model")
        return self

    @property
    def queries_go_to(self) -> EndpointOptions | None:
        """The server that encodes queries; None when the settings name none."""
        if not self.query_endpoint:
            return None
        return EndpointOptions(self.query_endpoint, self.query_endpoint_key, self.query_endpoint_timeout_s)

    @property
    def reranks_by(self) -> EndpointOptions | None:
        """The server that reorders results; None when the settings name none."""
        if not self.reranker_endpoint:
            return None
        return EndpointOptions(self.reranker_endpoint, self.reranker_key, self.reranker_budget_ms / 1000)
