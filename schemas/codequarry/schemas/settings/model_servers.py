"""Settings of the service about the model servers that it may call; without them it calls nobody."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from codequarry.schemas.settings.endpoints import ENV_NAME, EndpointOptions, checked_url
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach


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
