"""What the tiers of a bundle are, and what the next one would cost and add, from measured figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from codequarry.schemas.index_settings import Tier
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings

_MINILM_DIM = 384
_VECTOR_BYTES = 2 * 4 * _MINILM_DIM
"""Of a chunk: in the table, and in an exact index."""
_MINILM_BYTES = 23_600_000
_TOKENS = 135
"""With a vector, of a chunk."""
_TOKEN_BYTES = {"standard": 197, "compact": 70}


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
        "documentation finds its code with MRR@10 .589 instead of .545 (3,395 questions about 25 held-out packages; "
        "both encoders fused, MiniLM reading 256 tokens)",
        "pip install 'codequarry[models]'",
    ),
    "full": TierFacts(
        "late interaction, a vector for each token, and learned sparse terms where [splade] names a model",
        "alone NDCG@10 .692 where words have .653 and vectors .545, in hybrid .767 instead of .760, which shows no "
        "difference yet (179 questions mined from three repositories)",
        "pip install 'codequarry[warp]'",
    ),
}
CHUNKS_PER_CPU_SECOND = {128: 111, 256: 45}
"""Of MiniLM reading at most so many tokens of a chunk of 1,000 characters, as in docs/BENCHMARKS.md."""
LATE_CHUNKS_PER_CPU_SECOND = 35
"""Of late interaction: 43 encoded (150 chunks of 845 characters, at most 512 tokens), 216 indexed (18,355 chunks)."""


def next_tier(tier: Tier) -> Tier | None:
    """The tier above, None for the highest."""
    tiers = get_args(Tier)
    above = tiers[tiers.index(tier) + 1 :]
    return above[0] if above else None


def described(manifest: Manifest) -> str:
    """What a version is made of: its encoders, and the bytes of what tiers above fast have.

    The first tier's bytes are those of the rest of the version.
    """
    first, *more = manifest.legs
    parts = [f"{leg.encoder.name} ({_megabytes(manifest, leg.channel)})" for leg in more]
    said = f"words, names of definitions, and vectors by {' and '.join([first.encoder.name, *parts])}"
    if manifest.warp is not None:
        said += f"; late interaction by {manifest.warp.encoder.name} ({_megabytes(manifest, 'warp')})"
    if manifest.splade is not None:
        said += f"; learned sparse terms by {manifest.splade.encoder.name} ({_megabytes(manifest, 'splade')})"
    return said


def offer(tier: Tier, chunks: int, settings: Settings) -> list[str]:
    """What the tier above would add to a version and cost; nothing where there is none, or no figures for it."""
    above = next_tier(tier)
    own = settings.embedding
    # The figures of a second encoder are those of the static encoder and MiniLM, and of no other two.
    if above is None or (above == "standard" and (own.model != "static" or own.second is not None)):
        return []
    facts = FACTS[above]
    return [
        f"tier {above} would add {facts.adds}: {estimate(above, chunks, settings)}; {facts.gain}",
        f'  for it: [indexes] tier = "{above}", and {facts.needs}',
    ]


def estimate(tier: Tier, chunks: int, settings: Settings) -> str:
    """What a tier would take for so many chunks, none of which it knows, and the rate that this is computed from.

    >>> estimate("standard", 5_800, Settings())
    'about 52 CPU-seconds for 5,800 chunks at 111 a CPU-second, once, and 41 MB'
    """
    if tier == "full":
        rate, of_chunk = LATE_CHUNKS_PER_CPU_SECOND, _TOKENS * _TOKEN_BYTES[settings.warp.profile]
    else:
        fitting = (size for size in CHUNKS_PER_CPU_SECOND if size >= settings.embedding.max_tokens)
        tokens = min(fitting, default=max(CHUNKS_PER_CPU_SECOND))
        rate, of_chunk = CHUNKS_PER_CPU_SECOND[tokens], _VECTOR_BYTES
    megabytes = (chunks * of_chunk + _MINILM_BYTES) / 1e6
    seconds = max(1, round(chunks / rate))
    return f"about {seconds:,} CPU-seconds for {chunks:,} chunks at {rate} a CPU-second, once, and {megabytes:.0f} MB"


_FILES = {"faiss2": ("faiss2.", "encoder2/", "tables/embeddings2."), "warp": ("warp/",), "splade": ("splade/",)}
"""What the paths of a channel's files begin with."""


def _megabytes(manifest: Manifest, channel: str) -> str:
    size = sum(entry.size_bytes for entry in manifest.files if entry.path.startswith(_FILES[channel]))
    return f"{size / 1e6:.1f} MB"
