"""The score of a result from what its ``explain`` says, written down from the documentation."""

from __future__ import annotations

import math
from typing import Any


def recomputed(explain: dict[str, Any]) -> float:
    """explain: as on the wire."""
    scoring = explain["scoring"]
    factor, form = math.prod(scoring["factors"].values()), math.prod(scoring["form"].values())
    parts = [*explain["channels"].values(), *scoring["chunk"].values()]
    chunk = factor * sum(part["value"] * part["weight"] for part in parts)
    file = factor * sum(part["value"] * part["weight"] for part in scoring["file"].values())
    share = scoring["file_share"]
    of_file = share * file / scoring["best_file"] if scoring["best_file"] else 0
    of_chunk = (1 - share) * chunk / scoring["best_chunk"] if scoring["best_chunk"] else 0
    of_file *= form ** scoring["form_on_file"]
    return (of_file + of_chunk * form) * scoring["repeat"] * scoring.get("reranked", 1.0)
