"""What an explanation tells of a chunk beyond its score: what it defines, its syntax, what its file is about."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

from codequarry.schemas.chunk_facts import MAX_SAID
from codequarry.serving import present
from codequarry.serving.bundle import Bundle
from codequarry.serving.catalog import ChunkRow


class About(TypedDict):
    """Fields of `Explain`."""

    kinds: dict[str, int]
    leaves: dict[str, int]
    said: str


def about(bundle: Bundle, row: ChunkRow) -> About:
    """What is known of a chunk; nothing of its syntax and file in versions without facts."""
    index, facts = bundle.catalog.index, bundle.facts
    place = int(index.rows_of([row.chunk_id])[0])
    counts = Counter(index.column("kind", index.definitions_of_row(place)).tolist())
    kinds = {index.texts[kind]: count for kind, count in sorted(counts.items())}
    kinds.pop("module", None)
    found = About(kinds=kinds, leaves={}, said="")
    if facts is not None:
        found["leaves"] = facts.leaves_of(place)
        file = bundle.directory.find(row.repo, row.path)
        found["said"] = present.one_line(facts.said_of(file), MAX_SAID) if file is not None else ""
    return found
