"""Settings of the dense encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from codequarry.schemas.prefixes import Prefixes, known_prefixes
from codequarry.schemas.settings.device_setting import checked_devices, device_kind
from codequarry.schemas.settings.model_servers import ENV_NAME, EndpointOptions, checked_url
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Harmless, Reach

BUILT_IN = ("static", "minilm")
"""Models that need no name of anybody else's."""


class EncoderSettings(StrictModel):
    """A dense encoder."""

    section: ClassVar[str] = "[embedding.second]"
    """Place of the settings, for messages."""

    model: Annotated[str, Reach.MODEL, Harmless(BUILT_IN)] = Field(
        default="static",
        min_length=1,
        description="static: the shipped encoder, trained on code. minilm: all-MiniLM-L6-v2, int8 on ONNX Runtime, "
        "with the extra models. With endpoint: what the server there calls its model. Otherwise a model of "
        "sentence-transformers, exported with the extras models and transformers: its id on the hub, such as "
        "nomic-ai/CodeRankEmbed, or the path of its folder, such as ./models/mine.",
    )
    folder: Annotated[Path | None, Reach.PLACE] = Field(
        default=None,
        description="static: the folder of an encoder of your own, by codequarry tune encoder; for the second encoder "
        "one of any kind.",
    )
    max_tokens: int = Field(
        default=128, ge=16, le=8192, description="Tokens of a chunk that minilm, or a model by its name, reads."
    )
    threads: int = Field(default=0, ge=0, description="Threads of an exported model while building; 0 = one per core.")
    device: Annotated[str, Reach.WORDS] = Field(
        default="",
        description="Where chunks are embedded, in half precision on a GPU: cuda (every GPU there is), cuda:1, or "
        "cuda:0,cuda:1. By minilm with onnxruntime-gpu; by a model of sentence-transformers with torch, also on mps or "
        "cpu. Other encoders run on the CPU all the same, and warn. When empty the exported model does, as it does "
        "for queries.",
    )
    trust_remote_code: Annotated[bool, Reach.CODE] = Field(
        default=False,
        description="Run Python code that comes with a model of sentence-transformers; from the hub only at a revision "
        "that is a commit.",
    )
    endpoint: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="Address of an OpenAI-compatible server that makes the vectors, most end in /v1: vLLM, TEI, Ollama "
        "and the like. Queries need `serving.query_endpoint` as well.",
    )
    endpoint_key: Annotated[str, Reach.SECRET] = Field(
        default="CODEQUARRY_EMBEDDING_KEY",
        pattern=ENV_NAME,
        description="Environment variable that holds the key for the endpoint.",
    )
    endpoint_batch: int = Field(default=32, ge=1, le=2048, description="Texts of one request to the endpoint.")
    endpoint_concurrency: int = Field(default=4, ge=1, le=64, description="Requests to the endpoint at once.")
    endpoint_timeout_s: float = Field(default=60.0, gt=0, le=3600, description="How long the endpoint may take.")
    endpoint_retries: int = Field(
        default=6,
        ge=0,
        le=20,
        description="Attempts after the first of a request that fails in passing.",
    )
    revision: Annotated[str, Reach.WORDS] = Field(
        default="",
        description="Of the model's weights. Another name for it embeds everything anew.",
    )
    query_prefix: Annotated[str | None, Reach.WORDS] = Field(
        default=None, description="What the model wants in front of a query; the known one of its family when left out."
    )
    document_prefix: Annotated[str | None, Reach.WORDS] = Field(
        default=None, description="The same in front of a chunk."
    )

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str) -> str:
        return checked_url(value) if value else value

    @field_validator("device")
    @classmethod
    def _devices(cls, value: str) -> str:
        return checked_devices(value)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.endpoint and self.model not in BUILT_IN and not self.by_transformers:
            raise ValueError(
                f"model {self.model!r}: expected {' or '.join(BUILT_IN)}, an id such as nomic-ai/CodeRankEmbed, a path "
                "such as ./models/mine, or an endpoint besides"
            )
        if self.endpoint and self.model in BUILT_IN:
            raise ValueError("with an endpoint, model is what the server there calls its model")
        return self

    @property
    def half(self) -> bool:
        """True when chunks are embedded by a float16 graph, while queries are read by the int8 one."""
        return not self.endpoint and self.model == "minilm" and device_kind(self.device) == "cuda"

    @property
    def by_transformers(self) -> bool:
        """True when sentence-transformers runs the model."""
        return not self.endpoint and ("/" in self.model or self.model.startswith("~"))

    @property
    def prefixes(self) -> Prefixes:
        """Prefixes of the model, or those that the settings put in their place."""
        known = known_prefixes(self.model)
        return Prefixes(
            known.query if self.query_prefix is None else self.query_prefix,
            known.document if self.document_prefix is None else self.document_prefix,
        )

    @property
    def made_by(self) -> EndpointOptions | None:
        """The server that makes the vectors; None when they are made here."""
        if not self.endpoint:
            return None
        return EndpointOptions(
            self.endpoint,
            self.endpoint_key,
            self.endpoint_timeout_s,
            self.endpoint_retries,
            self.endpoint_batch,
            self.endpoint_concurrency,
        )


class EmbeddingSettings(EncoderSettings):
    """The dense encoder of every tier, and the second one of the tiers above fast."""

    section: ClassVar[str] = "[embedding]"
    adapt: bool = Field(
        default=False,
        description="Train a static encoder further on the repositories before they are embedded, and take it where it "
        "is better beyond doubt. Needs the extra train.",
    )
    second: EncoderSettings | None = Field(
        default=None,
        description="Tiers above fast: the second encoder, a table [embedding.second] with the keys of [embedding] but "
        "adapt; minilm when there is none.",
    )

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        if self.endpoint and self.second is not None and self.second.endpoint not in ("", self.endpoint):
            raise ValueError("both encoders are asked at one endpoint, because the server has one for queries")
        return self

    @property
    def second_encoder(self) -> EncoderSettings:
        """The second encoder of the tiers above fast."""
        return self.second or EncoderSettings(model="minilm", max_tokens=self.max_tokens, threads=self.threads)
