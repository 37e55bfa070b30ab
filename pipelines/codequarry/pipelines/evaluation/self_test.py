"""The end-to-end check of the golden oracle pack: its promises on indexing, joins, search and fetch."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from codequarry.pipelines.evaluation.golden_pack import FACTORIES, GoldenPack, GoldenQuery, build_golden, read_pack
from codequarry.pipelines.indexes.faiss_stage import mapped
from codequarry.pipelines.measure.asking import engine_over, split_uri
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.catalog.views import set_bundle
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import TOP_K_MAX, FetchRequest, SearchRequest
from codequarry.serving.channels.vector_table import VectorTable
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import read_manifest

_TOLERANCE = 5e-4
"""Tolerance of cosines and of the numbers of vectors: these are kept in half precision, with eleven bits."""


class SelfTestCheck(NamedTuple):
    """One promise of the pack, and the result of its check."""

    index: str
    """FAISS factory of the bundle."""
    what: str
    kept: bool
    found: str
    """Finding, as far as it helps."""


def check_golden(progress: Progress) -> list[SelfTestCheck]:
    """Build the pack's bundle with each kind of index and check every promise.

    Args:
        progress: Told of the bundles checked.

    Returns:
        Results of all checks.

    Raises:
        CodequarryError: As `build_golden` does.
    """
    pack = read_pack()
    checks: list[SelfTestCheck] = []
    for done, factory in enumerate(FACTORIES):
        progress("golden oracle pack", done, len(FACTORIES))
        with tempfile.TemporaryDirectory(prefix="codequarry-golden-") as folder:
            checks += check_bundle(pack, build_golden(pack, Path(folder), factory), factory)
    progress("golden oracle pack", len(FACTORIES), len(FACTORIES))
    return checks


def check_bundle(pack: GoldenPack, paths: BundlePaths, factory: str) -> list[SelfTestCheck]:
    """Check one bundle that holds the pack's corpus.

    Args:
        pack: The pack.
        paths: Paths of the version.
        factory: FAISS factory string of its index.

    Returns:
        Results of all checks.

    Raises:
        CodequarryError: As `Bundle.open_current` does.
    """
    found = check_tables(pack, paths)
    with engine_over(paths.path.parents[1], ServingSettings()) as engine:
        found += [_search(pack, engine, query) for query in pack.queries]
        found.append(_fetch(pack, engine, _ids(paths)))
    return [SelfTestCheck(factory, *one) for one in found]


def check_tables(pack: GoldenPack, paths: BundlePaths) -> list[tuple[str, bool, str]]:
    """Return (what, kept, found) of the checks that look into the files of a version."""
    ids = _ids(paths)
    return [
        _chunks(pack, paths),
        _vectors(pack, paths, ids),
        _id_map(pack, paths, ids),
        _join(paths, ids),
        _modules(paths, ids),
    ]


_Found = tuple[str, bool, str]


def _ids(paths: BundlePaths) -> dict[int, str]:
    """Return path by chunk id."""
    tables = [read_table(file, ["chunk_id", "path"]) for file in paths.table_files("chunks")]
    return {row["chunk_id"]: row["path"] for table in tables for row in table.to_pylist()}


def _chunks(pack: GoldenPack, paths: BundlePaths) -> _Found:
    rows = sum(read_table(file, ["chunk_id"]).num_rows for file in paths.table_files("chunks"))
    return "one chunk for each file", rows == len(pack.texts), f"{rows} chunks of {len(pack.texts)} files"


def _vectors(pack: GoldenPack, paths: BundlePaths, ids: dict[int, str]) -> _Found:
    rows = [row for file in paths.table_files("embeddings") for row in read_table(file).to_pylist()]
    off = [float(np.abs(pack.vectors[ids[row["chunk_id"]]] - np.array(row["vector"])).max()) for row in rows]
    kept = len(off) == len(pack.texts) and max(off) <= _TOLERANCE
    return "vectors as constructed", kept, f"{len(off)} vectors, at most {max(off, default=0):.0e} off"


def _id_map(pack: GoldenPack, paths: BundlePaths, ids: dict[int, str]) -> _Found:
    """Check, for each row of the id map, that FAISS has the vector of the chunk with that id."""
    manifest = read_manifest(paths)
    vectors = VectorTable.open(paths, manifest, manifest.encoder.dim)
    indexes = mapped(paths, vectors if manifest.faiss.exact else None)
    rows = [index.reconstruct(row) for index in indexes for row in range(index.ntotal)]
    idmap = read_table(paths.faiss_idmap).to_pylist()
    wrong = [
        row["faiss_row"]
        for number, row in enumerate(idmap)
        if row["faiss_row"] != number
        or number >= len(rows)
        or np.abs(pack.vectors[ids[row["chunk_id"]]] - rows[number]).max() > _TOLERANCE
    ]
    kept = not wrong and len(idmap) == len(pack.texts)
    return "id map leads to the chunk's own vector", kept, f"{len(idmap)} rows, {len(wrong)} wrong"


def _join(paths: BundlePaths, ids: dict[int, str]) -> _Found:
    import duckdb

    with duckdb.connect(str(paths.catalog), read_only=True) as connection:
        connection.execute(set_bundle(str(paths.path)))
        rows = connection.execute("SELECT faiss_row, idmap_chunk_id, chunk_id, path FROM v_faiss_join").fetchall()
    open_ = [row for row in rows if None in row or row[1] != row[2] or ids.get(row[2]) != row[3]]
    kept = not open_ and len(rows) == len(ids)
    return "v_faiss_join has both sides", kept, f"{len(rows)} rows, {len(open_)} with a side missing or wrong"


def _modules(paths: BundlePaths, ids: dict[int, str]) -> _Found:
    """Check that each row of the dense index leads to the module of its file."""
    import duckdb

    with duckdb.connect(str(paths.catalog), read_only=True) as connection:
        connection.execute(set_bundle(str(paths.path)))
        rows = connection.execute(
            "SELECT path, modules.module FROM v_faiss_join AS joined LEFT JOIN modules USING (repo, path)"
        ).fetchall()
    wrong = [path for path, module in rows if module != path.partition(".")[0]]
    kept = not wrong and len(rows) == len(ids)
    return "v_faiss_join leads to modules", kept, f"{len(rows)} rows, {len(wrong)} without the module of their file"


def _search(pack: GoldenPack, engine: Engine, query: GoldenQuery) -> _Found:
    answer = engine.search(SearchRequest(query=query.query, top_k=TOP_K_MAX, channel="faiss", explain=True))
    got = [
        (split_uri(result.metadata.uri)[1], result.metadata.explain.channels["faiss"].score)
        for result in answer.results
    ]  # fmt: skip
    expected = {path: cosine for cosine, names in query.nearest for path in names}
    wrong = _wrong_order(got, query)
    off = max((abs(score - expected.get(path, 0.0)) for path, score in got), default=1.0)
    kept = not wrong and len(got) == len(pack.texts) and off <= _TOLERANCE
    told = f"{wrong or 'in order'}; cosines at most {off:.0e} off"
    words = query.query.split()
    asked = query.query if len(words) < 4 else f"{words[0]} … {words[-1]}, {len(words)} words"
    return f"exact search: {asked}", kept, told


def _wrong_order(got: Sequence[tuple[str, float]], query: GoldenQuery) -> str:
    """Describe where the results leave the promised order; "" when they keep it."""
    remaining = iter([path for path, _ in got])
    for _, names in query.nearest:
        own = set(islice(remaining, len(names)))
        if own != names:
            return f"found {', '.join(sorted(own)) or 'nothing'}, expected {', '.join(sorted(names))}"
    return ""


def _fetch(pack: GoldenPack, engine: Engine, ids: dict[int, str]) -> _Found:
    answer = engine.fetch(FetchRequest(objectIds=[str(one) for one in ids], max_tokens=16_000))
    wrong = [one.id for one in answer.objects if one.content != pack.texts[ids[int(one.id)]]]
    kept = not wrong and len(answer.objects) == len(ids)
    return "fetch returns each file's text", kept, f"{len(answer.objects)} objects, {len(wrong)} differ"
