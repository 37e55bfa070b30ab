"""Opening and verifying a bundle of as many chunks as 1 GB holds: the corpus many times over, under other names."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.corpus import HOME, index
from benchmarks.report import Figure, at_least, at_most, percentile, print_figures
from codequarry.pipelines.bundle.catalog import build_catalog
from codequarry.pipelines.bundle.manifest import FileEntries
from codequarry.pipelines.indexes.bm25 import write_meta, write_segments
from codequarry.pipelines.indexes.faiss import write_idmap
from codequarry.pipelines.store.row_groups import arrays
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest, SegmentEntry, to_json
from codequarry.schemas.bundle.tables import SCHEMAS, TableWriter, write_table, write_vectors
from codequarry.serving.catalog.catalog import Catalog
from codequarry.serving.files.file_index import FileIndex, FileRow
from codequarry.serving.files.integrity import file_sha256, read_manifest, verify
from codequarry.serving.version.open import Bundle

GIGABYTE = 1_000_000_000
OPENINGS = 15
_ID_STEP = 1 << 40
"""Between the ids of a chunk and of its next copy; ids are spread over 63 bits."""


def run() -> None:
    """Build the bundle when it is not there, measure and print."""
    root, _, _ = index(HOME / "reindex")
    base = BundleRoot(root).version(BundleRoot(root).read_current().version)
    target = BundleRoot(HOME / "opening")
    if not target.current.is_file():
        _build(base, target)
    Bundle.open_current(target.path).close()  # imports the libraries
    times: list[float] = []
    for _ in range(OPENINGS):
        started = time.perf_counter()
        bundle = Bundle.open_current(target.path)
        times.append(1000 * (time.perf_counter() - started))
        bundle.close()
    paths = target.version(target.read_current().version)
    manifest = read_manifest(paths)
    size = sum(entry.size_bytes for entry in manifest.files)
    started = time.perf_counter()
    verify(paths, manifest, deep=False)
    quick = 1000 * (time.perf_counter() - started)
    started = time.process_time()
    verify(paths, manifest, deep=True)
    deep = size / 1e6 / (time.process_time() - started)
    figures = [
        Figure("size, files, chunks", f"{size / 1e9:.2f} GB, {len(manifest.files):,}, {manifest.counts.chunks:,}"),
        at_most("opening it, libraries imported: median", percentile(times, 0.5), 100, "ms"),
        Figure("opening it, libraries imported: largest", f"{max(times):.1f} ms"),
        Figure("of which comparing names and sizes", f"{quick:.1f} ms"),
        at_least("deep verification, one core", deep, 500, "MB per CPU-s", 0),
    ]
    print_figures("A bundle of as many chunks as 1 GB holds, page cache warm", figures)


def _build(base: BundlePaths, target: BundleRoot) -> None:
    """Write a version that holds the base version as often as makes a gigabyte."""
    shutil.rmtree(target.path, ignore_errors=True)
    held = read_manifest(base)
    # As many chunks as a gigabyte of real ones is; the tables of copies compress better, and take less.
    copies = 1 + GIGABYTE // sum(e.size_bytes for e in held.files if not e.path.startswith("encoder/"))
    paths = target.version(base.path.name)
    paths.path.mkdir(parents=True)
    shutil.copytree(base.encoder, paths.encoder)
    paths.tables.mkdir()
    paths.bm25.mkdir()
    for name, schema in SCHEMAS.items():
        for file in base.table_files(name):
            rows = pq.read_table(file)
            with TableWriter(paths.tables / file.name, schema) as writer:
                for copy in _copies(rows, copies):
                    writer.write(copy)
    segments: list[SegmentEntry] = []
    ids = []
    for chunks, vectors in zip(base.table_files("chunks"), base.table_files("embeddings"), strict=True):
        print(f"building a gigabyte: {chunks.name}", flush=True)
        place = [("repo", "ascending"), ("path", "ascending"), ("start_byte", "ascending")]
        table = pq.read_table(paths.tables / chunks.name).sort_by(place)
        write_table(paths.tables / chunks.name, table, SCHEMAS["chunks"], paged="text")
        segments += [SegmentEntry(id=each.id, documents=each.documents) for each in write_segments(paths, table)]
        rows = pq.read_table(vectors)
        turned = (_turned(copy, number, held.encoder.dim) for number, copy in enumerate(_copies(rows, copies)))
        embeddings = pa.concat_tables(turned).sort_by("chunk_id").combine_chunks()
        own, values = arrays(embeddings, held.encoder.dim)
        write_vectors(paths.tables / vectors.name, own, values)
        ids.append(own)
    write_idmap(paths.faiss_idmap, ids)
    write_meta(paths, segments)
    digest = build_catalog(paths, held.encoder.dim)
    _write_file_index(paths, held.encoder.dim)
    shutil.copyfile(base.ranking, paths.ranking)
    counts = held.counts.model_copy(update={"chunks": sum(map(len, ids)), "files": held.counts.files * copies})
    entries = FileEntries(paths, None)
    entries.catalog_digest = digest
    files = entries.all()
    manifest: Manifest = held.model_copy(update={"counts": counts, "files": files, "shards": ()})
    paths.manifest.write_bytes(to_json(manifest))
    target.current.write_text(Current(paths.path.name, file_sha256(paths.manifest)).line(), encoding="ascii")


def _write_file_index(paths: BundlePaths, dim: int) -> None:
    """An index of the files as large as a real one, whose cards say nothing."""
    with closing(Catalog.open(paths)) as catalog:
        directory = catalog.directory()
    rows = np.flatnonzero(directory.indexed).tolist()
    files = [FileRow(row, directory.repos[row], directory.paths[row], 0, 0) for row in rows]
    shards = [row % len(paths.table_files("chunks")) for row in rows]
    FileIndex.build(files, np.zeros((len(files), dim), np.float32), shards).write(paths.files)


def _turned(table: pa.Table, number: int, dim: int) -> pa.Table:
    """Other vectors of the same norm, so that copies do not compress."""
    _, vectors = arrays(table, dim)
    flat = pa.array(np.roll(vectors, number, axis=1).reshape(-1), pa.float32())
    return table.set_column(1, "vector", pa.FixedSizeListArray.from_arrays(flat, dim))


def _copies(table: pa.Table, count: int) -> Iterator[pa.Table]:
    """The rows under other repositories and ids."""
    for number in range(count):
        copy = table
        if "chunk_id" in table.column_names:
            at = table.column_names.index("chunk_id")
            ids = pc.call_function("add", [table["chunk_id"], pa.scalar(number * _ID_STEP, pa.int64())])
            kept = pc.call_function("bit_wise_and", [ids, pa.scalar((1 << 63) - 1, pa.int64())])
            copy = copy.set_column(at, table.schema.field(at), kept)
        if "repo" in table.column_names:
            at = table.column_names.index("repo")
            names = pc.call_function(
                "binary_join_element_wise", [copy["repo"], pa.scalar(f"{number:04}"), pa.scalar("-")]
            )
            copy = copy.set_column(at, table.schema.field(at), names.cast(pa.string()))
        yield copy.cast(table.schema)


if __name__ == "__main__":
    run()
