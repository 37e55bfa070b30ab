"""Recall of a dense channel as it serves, against the vectors of the version's own tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codequarry.pipelines.shards import arrays
from codequarry.schemas.faiss_tuning import DEPTH
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.tables import read_table
from codequarry.serving.dense import FaissChannel

_SAME = 1e-5
"""Cosines this near are equal: of chunks with the same vector any may be the tenth."""


def ann_recall(channel: FaissChannel, paths: BundlePaths, dim: int, queries: Sequence[str]) -> tuple[float, list[str]]:
    """Share of the true ten nearest chunks that a channel returns, and the questions it answers worst.

    paths: of the channel's leg. queries: at least one. A chunk counts when its own vector, as the table has it under
    its id, is as near as the tenth: an index whose ids are another's, or that is of other vectors, finds none.
    """
    found = [channel.search(query, DEPTH, allowed=None, rerank=True) for query in queries]
    vectors = np.stack([each.vector for each in found if each.vector is not None])
    best = np.full((len(queries), DEPTH), -np.inf, np.float32)
    scores = [np.full(len(each.chunk_ids), -np.inf, np.float32) for each in found]
    rows = 0
    for file in paths.table_files(paths.embeddings):
        ids, held = arrays(read_table(file).combine_chunks(), dim)
        rows += len(ids)
        compared = vectors @ held.T
        best = -np.sort(-np.hstack([best, compared]), axis=1)[:, :DEPTH]
        order = np.argsort(ids)
        for number, each in enumerate(found):
            places = np.minimum(np.searchsorted(ids, each.chunk_ids, sorter=order), len(ids) - 1)
            own = order[places]
            here = ids[own] == each.chunk_ids
            scores[number][here] = compared[number, own[here]]
    depth = min(DEPTH, rows)
    recalls = [
        min(depth, int((own >= least - _SAME).sum())) / depth
        for own, least in zip(scores, best[:, depth - 1], strict=True)
    ]
    worst = sorted(zip(recalls, queries, strict=True))
    return float(np.mean(recalls)), [f"{query!r} {recall:.1f}" for recall, query in worst if recall < 1]
