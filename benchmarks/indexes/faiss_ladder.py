"""The dense index by size: recall and time of a query, mapped, on vectors of real code and on synthetic ones.

``python -m benchmarks.indexes.faiss_ladder FOLDER...`` cuts every text file of the folders into pieces of twelve lines
and encodes them with the shipped encoder; ``--synthetic N`` draws N vectors around random centres instead. Nothing is
kept.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

from benchmarks.report import machine
from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.pipelines.evaluation.tune_faiss import milliseconds
from codequarry.pipelines.indexes.faiss import faiss_factory
from codequarry.pipelines.indexes.faiss_stage import mapped, write_trained
from codequarry.pipelines.indexes.faiss_sweep import tune
from codequarry.schemas.bundle.faiss_tuning import to_bytes
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.settings.indexes import IndexesSettings
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.text.lexical import dense_text

_LINES = 12
_DIM = 256
_QUERIES = 256
_LONGEST = 500_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--synthetic", type=int, default=0)
    parser.add_argument("--factory", action="append", default=[])
    given = parser.parse_args()
    print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        count, queries = _synthetic(file, given.synthetic) if given.synthetic else _real(file, given)
        vectors = np.load(file, mmap_mode="r")
        print(f"{count:,} vectors of {_DIM} dimensions, {len(queries)} queries that are none of them")
        for factory in given.factory or ["auto"]:
            _measure(Path(folder), vectors, queries, factory)


def _measure(folder: Path, vectors: np.ndarray, queries: np.ndarray, name: str) -> None:
    settings = IndexesSettings(faiss_factory=name)
    factory = faiss_factory(len(vectors), vectors.shape[1], settings)
    paths = BundlePaths(folder)
    started = time.process_time()
    write_trained(paths, np.arange(1, len(vectors) + 1), vectors, factory, settings)
    built = time.process_time() - started
    indexes = mapped(paths)
    started = time.process_time()
    tuning = tune(indexes, vectors, queries, factory, settings.faiss_recall)
    swept = time.process_time() - started
    spent = milliseconds(indexes, vectors, queries, tuning)
    size = sum(file.stat().st_size for file in paths.faiss_indexes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\n{factory}: built in {built:.0f} CPU-s, swept in {swept:.1f}, {size / 1e6:.0f} MB, peak {peak:.1f} GB RSS")
    print(f"faiss.tuning.json {len(to_bytes(tuning)):,} bytes")
    for point in tuning.frontier:
        chosen = "*" if point == tuning.chosen else " "
        ms = spent[point.parameters]
        print(f"{chosen} {point.parameters:32} recall@10 {point.recall:.4f}  {point.comparisons:9,.0f}  {ms:.3f} ms")
    flat = _flat_ms(vectors, queries)
    print(f"  exact, every vector compared: {flat:.2f} ms")
    for file in paths.faiss_indexes():
        file.unlink()


def _flat_ms(vectors: np.ndarray, queries: np.ndarray) -> float:
    held = np.ascontiguousarray(vectors)
    faiss.omp_set_num_threads(1)
    times: list[float] = []
    for query in queries[:20]:
        started = time.perf_counter()
        faiss.knn(query[None, :], held, 10, metric=faiss.METRIC_INNER_PRODUCT)
        times.append(1000 * (time.perf_counter() - started))
    return float(np.median(times))


def _real(file: Path, given: argparse.Namespace) -> tuple[int, np.ndarray]:
    """Vectors of pieces of code; the queries are comment lines of other pieces, as somebody would ask."""
    encoder = open_encoder(SHIPPED)
    pieces: list[str] = []
    asked: list[str] = []
    for number, (text, comment) in enumerate(_pieces(given.folders)):
        if comment and number % 16 == 0 and len(asked) < 8 * _QUERIES:
            asked.append(comment)
        elif len(pieces) < given.vectors:
            pieces.append(text)
    held = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(given.vectors, _DIM))
    for start in range(0, len(pieces), 8192):
        held[start : start + 8192] = encoder.encode_documents(pieces[start : start + 8192])[: given.vectors - start]
    missing = given.vectors - len(pieces)
    print(
        f"{len(pieces):,} pieces of real code" + (f", and {missing:,} jittered copies of some" if missing > 0 else "")
    )
    if missing > 0:
        draw = np.random.default_rng(0)
        copies = held[draw.integers(len(pieces), size=missing)] + draw.normal(0, 0.02, (missing, _DIM))
        held[len(pieces) :] = copies / np.linalg.norm(copies, axis=1, keepdims=True)
    held.flush()
    chosen = asked[:: max(1, len(asked) // _QUERIES)][:_QUERIES]
    return len(held), np.stack([encoder.encode_query(text) for text in chosen]).astype(np.float32)


def _pieces(folders: list[Path]) -> Iterator[tuple[str, str]]:
    """Return what the encoder would read of a piece, and the first comment in it or ""."""
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
            if path.stat().st_size > _LONGEST:
                continue
            try:
                lines = path.read_text(encoding="utf-8").splitlines()
            except UnicodeDecodeError:
                continue
            name = path.relative_to(folder).as_posix()
            for start in range(0, len(lines), _LINES):
                part = lines[start : start + _LINES]
                text = "\n".join(part)
                if len(text) > 80:
                    told = [
                        line.strip(" /#*-;\"'") for line in part if line.lstrip().startswith(("//", "#", "*", '"""'))
                    ]
                    comment = next((line for line in told if len(line.split()) > 4), "")
                    yield dense_text(path=name, qualified_name="", symbols=[], signature="", text=text), comment


def _synthetic(file: Path, count: int) -> tuple[int, np.ndarray]:
    """Unit vectors around centres, as many as there are roots, so that neighbours exist as they do among real ones."""
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((4 * int(count**0.5), _DIM)).astype(np.float32)
    held = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(count, _DIM))

    def around(size: int) -> np.ndarray:
        found = centres[draw.integers(len(centres), size=size)] + draw.standard_normal((size, _DIM)).astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    for start in range(0, count, 65_536):
        held[start : start + 65_536] = around(min(65_536, count - start))
    held.flush()
    return count, around(_QUERIES)


if __name__ == "__main__":
    main()
