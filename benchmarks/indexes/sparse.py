"""Search in a learned sparse index of 50,000 documents, beside other ways to do it, and against a naive scorer.

``python -m benchmarks.indexes.sparse [FOLDER]``: a folder with a sparse model adds documents and queries of it; chunks
of installed packages, recombined to 50,000 documents.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.corpus import HOME, PACKAGES, package_folder
from benchmarks.indexes.sparse_rivals import rivals
from benchmarks.report import Figure, at_least, at_most, percentile, print_figures
from codequarry.pipelines.embed.export.sparse import DOCUMENTS, QUERIES, export_sparse
from codequarry.pipelines.embed.export.sparse_model import read_sparse_model
from codequarry.pipelines.indexes.splade.build import SpladePlan, build_splade
from codequarry.pipelines.indexes.text_indexes import TEXT_COLUMNS, chunk_text
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.store.parts import plan_parts
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import PathsSettings, RepositorySettings, Settings, SourcesSettings
from codequarry.serving.channels.splade_index import SpladeIndex
from codequarry.serving.encoders.sparse import Impacts, SparseEncoder, SparseQuery, open_query_encoder

COUNT, VOCABULARY, TERMS, LIMIT, ASKED = 50_000, 30_522, 200, 200, 100
_FILE = 20
"""Documents that share a subject, as chunks of a file do."""
_MOST_CHUNKS = 3_000


def run() -> None:
    """Measure and print; with the model of the argument as well."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    documents = list(synthetic(np.random.default_rng(1)))
    for terms in (10, 40):
        queries = drawn(documents, terms, np.random.default_rng(2))
        measure(f"Synthetic documents, queries of {terms} terms", documents, VOCABULARY, queries)
    if len(sys.argv) > 1 and Path(sys.argv[-1]).is_dir():
        of_model(Path(sys.argv[-1]))


def synthetic(random: np.random.Generator) -> Iterator[Impacts]:
    """Documents by Zipf's law, more than half of whose terms are those of their subject."""
    shares = np.cumsum(1 / (np.arange(VOCABULARY) + 30) ** 0.9)
    shares /= shares[-1]

    def draw(count: int) -> np.ndarray:
        return np.searchsorted(shares, random.random(count))

    for _ in range(COUNT // _FILE):
        subject = np.unique(draw(2 * TERMS))
        for _ in range(_FILE):
            own = random.choice(subject, min(len(subject), TERMS * 6 // 10), replace=False)
            terms = np.unique(np.concatenate([own, draw(TERMS // 2)])).astype(np.int32)
            yield Impacts(terms, np.clip(random.gamma(1.2, 40, len(terms)), 1, 255).astype(np.uint8))


def drawn(documents: Sequence[Impacts], terms: int, random: np.random.Generator) -> list[SparseQuery]:
    """Queries of terms that some document has."""
    queries: list[SparseQuery] = []
    for row in random.integers(0, len(documents), ASKED):
        found = documents[row].terms
        own = np.sort(random.choice(found, min(terms, len(found)), replace=False)).astype(np.int32)
        queries.append(SparseQuery(own, random.integers(1, 1024, len(own)).astype(np.int32), 1.0, frozenset(), False))
    return queries


def of_model(folder: Path) -> None:
    """Documents and queries of a model: chunks of installed packages, recombined until there are enough."""
    home = HOME / "sparse-model"
    model = read_sparse_model(folder)
    export_sparse(model, home, max_tokens=256)
    encoder = SparseEncoder.open(home / DOCUMENTS)
    texts, sentences = corpus()
    texts = texts[:: -(-len(texts) // _MOST_CHUNKS)]
    started = time.process_time()
    real = [found.heaviest(256) for found in encoder.encode_documents(texts)]
    rate = len(texts) / (time.process_time() - started)
    ask = open_query_encoder(home / QUERIES if (home / QUERIES).is_dir() else home / DOCUMENTS)
    queries = [ask.encode_query(text) for text in sentences]
    spent = [_timed(lambda text=text: ask.encode_query(text)) for text in sentences]
    random = np.random.default_rng(3)
    pairs = random.integers(0, len(real), (COUNT, 2)).tolist()
    documents = [halves(real[one], real[other], random) for one, other in pairs]
    more = [
        Figure("chunks encoded", f"{len(texts):,} at {rate:.0f} a CPU-second"),
        Figure("query encoding: p50", f"{percentile(spent, 0.5):.1f} ms"),
    ]
    measure(f"{model.name}: its impacts and queries", documents, encoder.spec.dim, queries, more)


def corpus() -> tuple[list[str], list[str]]:
    """Texts of all chunks of the packages as a sparse encoder reads them, and first sentences of documentation."""
    home = HOME / "sparse-corpus"
    listed = tuple(RepositorySettings(path=package_folder(name), name=name) for name in PACKAGES)
    settings = Settings(
        paths=PathsSettings(store=home / "store", work=home / "work"), sources=SourcesSettings(repositories=listed)
    )
    rows: list[dict[str, str]] = []
    for repository in listed:
        snapshot_repository(repository, settings)
        chunk_repository(repository.name, settings)
        for part in plan_parts(repository_work(settings.paths.work, repository.name), settings):
            rows += read_table(part.table("chunks"), ["doc", *TEXT_COLUMNS]).to_pylist()
    documented = [row["doc"] for row in rows if len(row["doc"].split()) >= 5]
    asked = documented[:: max(1, len(documented) // ASKED)][:ASKED]
    return [chunk_text(row) for row in rows], [doc.split("\n\n")[0].split(". ")[0] for doc in asked]


def halves(one: Impacts, other: Impacts, random: np.random.Generator) -> Impacts:
    """A document with about half the terms of each of two."""
    parts = [
        (each.terms[kept], each.impacts[kept])
        for each in (one, other)
        for kept in [np.flatnonzero(random.random(len(each.terms)) < 0.5)]
    ]
    terms, first = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
    return Impacts(terms, np.concatenate([part[1] for part in parts])[first])


def measure(
    title: str,
    documents: Sequence[Impacts],
    vocabulary: int,
    queries: Sequence[SparseQuery],
    more: Iterable[Figure] = (),
) -> None:
    """Build, compare with the naive scorer, time every way."""
    folder = HOME / "sparse-index"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.process_time()
    plan = SpladePlan(vocabulary, 1.0, "0" * 64, "0" * 64)
    spec = build_splade(folder, enumerate(documents, start=1), plan)
    built = time.process_time() - started
    index = SpladeIndex.open(folder)
    size = sum(file.stat().st_size for file in folder.glob("*.npy"))
    read = [sum(len(index.postings(term)[0]) for term in query.terms.tolist()) for query in queries]
    naive = _Naive(documents, vocabulary)
    agreeing = sum(naive.agrees(index, query) for query in queries)
    figures = [
        *more,
        Figure("documents, postings", f"{spec.documents:,}, {spec.postings:,}"),
        Figure("terms of a query, postings of them, median", f"{_median([len(query.terms) for query in queries])}, "
               f"{_median(read):,}"),
        Figure("build", f"{built:.1f} CPU-s"),
        Figure("bytes a document", f"{size / spec.documents:.0f} B"),
        at_least(f"queries with the naive scorer's first {LIMIT}", 100 * agreeing / len(queries), 100, "%", 0),
    ]  # fmt: skip
    ways: dict[str, Callable[[SparseQuery], object]] = {
        "ours": lambda query: index.best(query, LIMIT, allowed=None, check=_unlimited)
    }
    ways |= {name: (lambda query, scores=scores: _best(scores(query))) for name, scores in rivals(index, LIMIT).items()}
    for name, search in ways.items():
        search(queries[0])
        times = [_timed(lambda query=query, search=search: search(query)) for query in queries]
        if name == "ours":
            figures.append(at_most("ours: p50", percentile(times, 0.5), 5, "ms"))
            figures.append(Figure("ours: p95", f"{percentile(times, 0.95):.2f} ms"))
        else:
            figures.append(
                Figure(f"{name}: p50 / p95", f"{percentile(times, 0.5):.2f} / {percentile(times, 0.95):.2f} ms")
            )
    print_figures(f"{title}, one core, first {LIMIT}", figures)


class _Naive:
    """Every document scored by itself, in 64 bits."""

    def __init__(self, documents: Sequence[Impacts], vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._count = len(documents)
        self._rows = np.repeat(np.arange(len(documents)), [len(each.terms) for each in documents])
        self._terms = np.concatenate([each.terms for each in documents])
        self._impacts = np.concatenate([each.impacts for each in documents])

    def agrees(self, index: SpladeIndex, query: SparseQuery) -> bool:
        """Return whether a search of the index gives the same documents with the same scores in the same order."""
        weights = np.zeros(self._vocabulary, np.int64)
        weights[query.terms] = query.weights
        products = weights[self._terms] * self._impacts
        totals = np.bincount(self._rows, products, self._count).astype(np.int64)
        order = np.lexsort((np.arange(self._count), -totals))[:LIMIT]
        order = order[totals[order] > 0]
        rows, scores = index.best(query, LIMIT, allowed=None, check=_unlimited)
        return rows.tolist() == order.tolist() and scores.tolist() == totals[order].tolist()


def _best(totals: np.ndarray) -> np.ndarray:
    rows = np.argpartition(totals, len(totals) - LIMIT)[len(totals) - LIMIT :]
    return rows[np.lexsort((rows, -totals[rows]))]


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds of CPU."""
    started = time.thread_time()
    work()
    return 1000 * (time.thread_time() - started)


def _median(values: Sequence[int]) -> int:
    return int(np.median(values))


def _unlimited() -> None:
    """No deadline."""


if __name__ == "__main__":
    run()
