"""Encoders, and their fusions with the lexical channel, on packages that none was trained on."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.corpus import HOME, package_folder
from benchmarks.report import Figure, at_least, at_most, print_figures
from codequarry.pipelines.adapt.contrastive import bags
from codequarry.pipelines.adapt.held_out import HeldOut, interval, mean, reciprocal_ranks, similarities
from codequarry.pipelines.adapt.train import adapt
from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.pipelines.embed.export.minilm import export_minilm
from codequarry.pipelines.embed.export.static import export_static
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.serving.encoders.spec import Encoder, open_encoder, open_tokenizer
from codequarry.serving.encoders.static import TokenIds
from codequarry.serving.text.analyzer import analyze
from tools.train_encoder.corpus import collect, held_out
from tools.train_encoder.sources import TrainingSource, fetch, read_sources
from tools.train_encoder.train import initial_table, inverse_frequencies, teacher

_K1, _B, _RRF_K = 1.2, 0.75, 60
_TIMED = 400
ADAPTED = ("fastmcp", "mcp", "starlette", "sqlalchemy", "dagster", "rich")
Ranks = dict[str, np.ndarray]


def run() -> None:
    """Fetch the held-out packages where they are not there, measure and print."""
    folder = HOME / "training"
    listed = read_sources()
    sources = _available([source for source in listed.sources if source.held_out], folder / "archives")
    tables = collect(sources, listed.never, folder)
    packages = [held_out(source, tables[source.key]) for source in sources]
    minilm = teacher(folder)
    encoders = {"static": open_encoder(SHIPPED), "distilled": _distilled(folder, minilm, packages), "MiniLM": minilm}
    scores = {name: _scores(encoder, packages) for name, encoder in encoders.items()}
    scores["BM25"] = {package.name: bm25(package) for package in packages}
    ranks = {name: {key: reciprocal_ranks(value) for key, value in found.items()} for name, found in scores.items()}
    for names in [*combinations(("BM25", "static", "MiniLM"), 2), ("BM25", "static", "MiniLM"), ("BM25", "distilled")]:
        ranks[" + ".join(names)] = {
            package.name: reciprocal_ranks(_fused([scores[name][package.name] for name in names]))
            for package in packages
        }
    _print_quality(packages, ranks)
    _print_adapted(folder)
    texts = [text for package in packages for text in package.corpus]
    query = [one for package in packages for one in package.queries][:_TIMED]
    thousand = [text.ljust(1_000)[:1_000] for text in texts if len(text) >= 900]
    static = encoders["static"]
    rate, slow = _rate(static.encode_documents, thousand), _rate(minilm.encode_documents, thousand[:200])
    usual = folder / "minilm-usual"
    export_minilm(usual, max_tokens=EmbeddingSettings().max_tokens)
    usual_rate = _rate(open_encoder(usual).encode_documents, thousand[:200])
    asked = 1000 / _rate(lambda some: [static.encode_query(one) for one in some], query)
    print_figures(
        "Encoding, one core",
        [
            at_least("static: chunks of 900 to 1,000 characters", rate, 3_000, "per CPU-s", 0),
            Figure("MiniLM, 256 tokens, the same chunks", f"{slow:.0f} per CPU-s"),
            Figure(f"MiniLM, {EmbeddingSettings().max_tokens} tokens, the same", f"{usual_rate:.0f} per CPU-s"),
            at_most("static: a query", asked, 0.5, "ms", 3),
            Figure("static: its files", f"{_size(SHIPPED) / 1e6:.1f} MB"),
            Figure("MiniLM: its files", f"{_size(folder / 'minilm') / 1e6:.1f} MB"),
        ],
    )


def _available(sources: list[TrainingSource], folder: Path) -> list[TrainingSource]:
    """Those whose registry can be asked from here."""
    found: list[TrainingSource] = []
    for source in sources:
        try:
            fetch(source, folder)
            found.append(source)
        except UnavailableError as error:
            print(f"left out: {error.message}")
    return found


def _print_adapted(folder: Path) -> None:
    """Measure what `codequarry tune encoder` says of installed packages, each as a corpus of its own."""
    print("\n## Adapted to one corpus: MRR@10 over five-fold cross-validation by file\n")
    print("| corpus | pairs | questions | shipped | adapted | difference, 95 % | outside | adapted | CPU-s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in ADAPTED:
        package = package_folder(name)
        files = (
            (str(file.relative_to(package)), "python", file.read_bytes()) for file in sorted(package.rglob("*.py"))
        )
        started = time.process_time()
        verdict = adapt(files, SHIPPED, folder / "adapted" / name)
        spent = time.process_time() - started
        low, high = verdict.interval
        print(
            f"| {name} | {verdict.pairs:,} | {verdict.queries} | {verdict.before:.3f} | {verdict.after:.3f} | "
            f"{low:+.3f} to {high:+.3f} | {verdict.outside_before:.3f} | {verdict.outside_after:.3f} | {spent:.0f} |"
        )


def bm25(package: HeldOut) -> np.ndarray:
    """(queries, candidates) float64: BM25 over one field, k1 1.2 and b .75, on the analyzer's terms."""
    documents = [[term.text for term in analyze(text)] for text in package.corpus]
    numbers: dict[str, int] = {}
    counts = np.zeros((len(documents), 1 + sum(map(len, map(set, documents)))))
    for row, terms in enumerate(documents):
        for term in terms:
            counts[row, numbers.setdefault(term, len(numbers))] += 1
    counts = counts[:, : len(numbers)]
    lengths = np.array([len(terms) for terms in documents])[:, None]
    frequency = (counts > 0).sum(axis=0)
    inverse = np.log(1 + (len(documents) - frequency + 0.5) / (frequency + 0.5))
    counts *= inverse * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * lengths / lengths.mean()))
    scores = np.zeros((len(package.queries), len(documents)))
    for row, query in enumerate(package.queries):
        known = [numbers[term.text] for term in analyze(query) if term.text in numbers]
        scores[row] = counts[:, sorted(set(known))].sum(axis=1)
    return scores


def _scores(encoder: Encoder, packages: list[HeldOut]) -> Ranks:
    return {package.name: similarities(encoder, package) for package in packages}


def _fused(scores: list[np.ndarray]) -> np.ndarray:
    """Reciprocal rank fusion with equal weights."""
    return sum((1 / (_RRF_K + 1 + (-one).argsort(axis=1).argsort(axis=1)) for one in scores), np.zeros(1))


def _distilled(folder: Path, minilm: Encoder, packages: list[HeldOut]) -> Encoder:
    """MiniLM's vectors of the shipped vocabulary, weighted by inverse frequency: a static model without training."""
    tokenizer = open_tokenizer(SHIPPED, open_encoder(SHIPPED).spec)
    texts = (
        (query, "", text) for package in packages for query, text in zip(package.queries, package.corpus, strict=False)
    )
    weights = inverse_frequencies(bags(texts, TokenIds(tokenizer), tokenizer.get_vocab_size()))
    table = initial_table(tokenizer, minilm)
    export_static(folder / "distilled", tokenizer, table, weights, name="distilled", source="MiniLM")
    return open_encoder(folder / "distilled")


def _print_quality(packages: list[HeldOut], ranks: dict[str, Ranks]) -> None:
    queries = sum(len(package.queries) for package in packages)
    languages = sorted({package.lang for package in packages})
    print(f"\n## Documentation finds its code: MRR@10, {len(packages)} packages, {queries:,} queries\n")
    print(f"| system | all | 95 % | minus MiniLM, 95 % | {' | '.join(languages)} |")
    print("|---|" + "---|" * (3 + len(languages)))
    for name, found in ranks.items():
        low, high = interval(found)
        below, above = interval(found, ranks["MiniLM"])
        by_language = [mean(found, [one.name for one in packages if one.lang == lang]) for lang in languages]
        cells = " | ".join(f"{value:.3f}" for value in by_language)
        print(f"| {name} | {mean(found):.3f} | {low:.3f} to {high:.3f} | {below:+.3f} to {above:+.3f} | {cells} |")
    print("\n| static minus MiniLM | packages | 95 % | surely below |")
    print("|---|---|---|---|")
    for lang in languages:
        own = {one.name: ranks["static"][one.name] for one in packages if one.lang == lang}
        below, above = interval(own, ranks["MiniLM"])
        print(f"| {lang} | {len(own)} | {below:+.3f} to {above:+.3f} | {'yes' if above < 0 else 'no'} |")


def _rate(encode: Callable[[list[str]], object], texts: list[str]) -> float:
    """Texts per CPU second; the first pass over them fills the memory of tokens, as the start of an index run does."""
    started = time.process_time()
    encode(texts)
    return len(texts) / (time.process_time() - started)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.name != "MODEL_CARD.md")


if __name__ == "__main__":
    run()
