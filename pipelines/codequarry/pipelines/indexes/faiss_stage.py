"""The parts of a version's dense indexes that cover all chunks: the id map, and the approximate indexes.

An exact index is written with the shard it belongs to. An approximate one is trained on and filled with the vectors of
every shard, again for each version, so that what was deleted is in no list and no graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from codequarry.pipelines.indexes.faiss import faiss_parts, write_faiss, write_idmap
from codequarry.pipelines.store.device_use import DeviceUse
from codequarry.pipelines.store.parts import Shard
from codequarry.pipelines.store.row_groups import rows_among
from codequarry.schemas.bundle.faiss_tuning import FaissTuning, exact_tuning, to_bytes
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import LegEntry
from codequarry.schemas.bundle.shards import shard_file
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.indexes import IndexesSettings
from codequarry.serving.channels.vector_table import VectorTable, exact_indexes, map_codes
from codequarry.serving.encoders.spec import Encoder, open_encoder

if TYPE_CHECKING:
    import faiss

_TEXT_CHARS = 200
_DRAWN = 8
"""Chunks drawn for each question: some have no text to ask, some have the same."""
_NOTHING_SAID = "text"
"""Question asked when no chunk has documentation or a name."""


def write_dense(
    paths: BundlePaths, plan: list[Shard], legs: list[LegEntry], settings: IndexesSettings
) -> dict[str, DeviceUse]:
    """Write the id map of all dense indexes, their tuning, and the approximate ones.

    Args:
        paths: Paths of the staged version, whose shards are written.
        plan: All its shards.
        legs: Its dense indexes.
        settings: Settings of the indexes.

    Returns:
        The device that built each dense index, by channel.

    Raises:
        InvalidArgumentError: FAISS does not accept the factory string for this data.
    """
    ids = [read_table(paths.path / shard.vectors(legs[0]), ["chunk_id"])["chunk_id"].to_numpy() for shard in plan]
    write_idmap(paths.faiss_idmap, ids)
    uses: dict[str, DeviceUse] = {}
    for leg in legs:
        own, factory = paths.leg(leg.channel), leg.faiss.factory
        if leg.faiss.exact:
            tuning = exact_tuning(factory, sum(map(len, ids)), settings.faiss_recall)
            uses[leg.channel] = DeviceUse(f"writing {factory}, which trains nothing,", "cpu", settings.faiss_gpu)
        else:
            codes = [
                map_codes(paths.path / shard.vectors(leg), len(held), leg.encoder.dim)
                for shard, held in zip(plan, ids, strict=True)
            ]
            vectors = VectorTable(codes, leg.encoder.dim)
            uses[leg.channel] = write_trained(own, np.concatenate(ids), vectors, factory, settings)
            tuning = tuned(own, vectors, factory, settings, open_encoder(own.encoder))
        own.tuning.write_bytes(to_bytes(tuning))
    return uses


def write_trained(
    paths: BundlePaths,
    chunk_ids: NDArray[np.int64],
    vectors: NDArray[np.float32] | VectorTable,
    factory: str,
    settings: IndexesSettings,
) -> DeviceUse:
    """Write an approximate index in as many files as its size asks for.

    Parameters and errors are those of `write_faiss`. The device is that of the first file that fell back, or of the
    first file.
    """
    parts = faiss_parts(len(vectors), settings)
    cuts = [len(vectors) * number // parts for number in range(parts + 1)]
    uses: list[DeviceUse] = []
    for number in range(parts):
        rows = slice(cuts[number], cuts[number + 1])
        own = vectors.between(rows) if isinstance(vectors, VectorTable) else vectors[rows]
        uses.append(
            write_faiss(
                paths.path / shard_file(paths.dense, "index", number, parts), chunk_ids[rows], own, factory,
                training=settings.faiss_training_vectors, gpu=settings.faiss_gpu,
            )
        )  # fmt: skip
    return next((use for use in uses if use.fell_back), uses[0])


def tuned(
    paths: BundlePaths, vectors: VectorTable, factory: str, settings: IndexesSettings, encoder: Encoder
) -> FaissTuning:
    """Measure the tuning of a dense index on questions made of its chunks.

    Args:
        paths: Paths of the version, for this dense index.
        vectors: (n, d) of all rows.
        factory: FAISS factory string of the index.
        settings: Number of questions, and the recall to reach.
        encoder: Encoder that made the vectors.

    Returns:
        The tuning.
    """
    from codequarry.pipelines.indexes.faiss_sweep import tune

    queries = encoded(questions(paths, settings.faiss_queries), encoder)
    return tune(mapped(paths), vectors, queries, factory, settings.faiss_recall)


def mapped(paths: BundlePaths, vectors: VectorTable | None = None) -> list[faiss.Index]:
    """Return the files of a dense index, mapped, without their id maps.

    Args:
        paths: Paths of the version, for this dense index.
        vectors: Its vectors, when the index is the exact one of a version, which has no other files.

    Returns:
        One index for each file.
    """
    import faiss

    found: list[faiss.Index] = []
    if vectors is not None:
        outers: list[Any] = list(exact_indexes(vectors, np.arange(len(vectors))))
    else:
        outers = [faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC) for file in paths.faiss_indexes()]
    for outer in outers:
        inner: Any = faiss.downcast_index(outer.index)
        inner.referenced_objects = [outer]  # which owns it
        found.append(inner)
    return found


def questions(paths: BundlePaths, count: int) -> list[str]:
    """Return texts that may be asked of a version: documentation of its chunks, or names of definitions.

    The chunks are those with the least ids, which are hashes: an even sample that few edits change.
    """
    columns, files = ["chunk_id", "doc", "qualified_name", "signature"], paths.table_files("chunks")
    ids = np.concatenate([read_table(file, ["chunk_id"])["chunk_id"].to_numpy() for file in files])
    least = pa.array(np.sort(ids)[: _DRAWN * count])
    rows = pa.concat_tables(rows_among(read_table(file, columns), "chunk_id", least) for file in files)
    drawn = rows.sort_by("chunk_id").to_pylist()
    said = (row["doc"] or row["qualified_name"] or row["signature"] for row in drawn)
    asked = list(dict.fromkeys(text[:_TEXT_CHARS] for text in said if text))[:count]
    return asked or [_NOTHING_SAID]


def encoded(texts: list[str], encoder: Encoder) -> NDArray[np.float32]:
    """Return the vectors of questions: (q, d) float32."""
    return np.stack([encoder.encode_query(text) for text in texts]).astype(np.float32)
