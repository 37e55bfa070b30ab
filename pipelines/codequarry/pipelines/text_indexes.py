"""What staging an index over the texts of chunks takes, whatever the index: the texts, and the encoder beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.hard_links import link_all
from codequarry.pipelines.shards import Shard
from codequarry.pipelines.vector_store import text_key
from codequarry.pipelines.warp_tokens import TEXT_COLUMNS, chunk_text
from codequarry.schemas.encoder import SPEC_FILE, EncoderSpec
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import FileEntry, Manifest
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.tables import read_table


def put_encoder(
    source: Path, index: Path, paths: BundlePaths, root: BundleRoot, held: Manifest | None
) -> frozenset[str]:
    """Copy the encoder of queries beside an index, its files linked to CURRENT where that has them.

    source: folder of the encoder. index: folder of the index in the staged version.

    Returns the paths that are links.
    """
    target = index / ENCODER_FOLDER
    below = f"{index.name}/{ENCODER_FOLDER}"
    names = EncoderSpec.load(source).sha256
    wanted = {f"{below}/{name}": sha256 for name, sha256 in names.items()}
    same: list[FileEntry] = []
    if held is not None:
        found = [entry for entry in held.files if wanted.get(entry.path) == entry.sha256]
        same = found if link_all(root.version(held.version), paths, found) else []
    linked = frozenset(entry.path for entry in same)
    for name in (*names, SPEC_FILE):
        if f"{below}/{name}" not in linked:
            shutil.copyfile(source / name, target / name)
    return linked


def texts_of(
    paths: BundlePaths, plan: Sequence[Shard], encode: Callable[[Sequence[str]], object]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """Ids of all chunks, (n,) ascending, and the key of the text of each.

    encode: given the texts of each shard, to see that the store has what is made of them.
    """
    ids: list[int] = []
    keys: list[bytes] = []
    for shard in plan:
        rows = read_table(paths.path / shard.table("chunks"), ["chunk_id", *TEXT_COLUMNS]).to_pylist()
        texts = [chunk_text(row) for row in rows]
        encode(texts)
        ids += [row["chunk_id"] for row in rows]
        keys += [text_key(text) for text in texts]
    order = np.argsort(np.array(ids, np.int64), kind="stable")
    return np.array(ids, np.int64)[order], [keys[row] for row in order.tolist()]
