"""Function-level questions mined from repositories: every way of asking, and what each part of the ranking is worth.

    python -m benchmarks.quality.mined_search FOLDER... [--queries N] [--seed N] [--worth] [--misspelt] [--fragments]

Each folder is a git clone, bare or not. Sentences of documentation ask for their function in an index that lacks them,
subjects of commits for what they changed, identifiers, error messages and keys for the place that defines them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.quality.misspelt import print_misspelt
from benchmarks.quality.name_fragments import print_fragments
from benchmarks.quality.ranking_parts import FIGURES, Corpus, print_worth
from codequarry.pipelines.evaluation.mining import mine
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.measure.results import scores_of
from codequarry.schemas.settings.load import RepositorySettings, load_settings

HOME = Path(__file__).resolve().parents[2] / ".codequarry" / "bench" / "mined-search"
WAYS = ("bm25", "faiss", "hybrid")


def main() -> None:
    """Mine, ask, and print."""
    parser = argparse.ArgumentParser(prog="mined_search", description=__doc__, formatter_class=_Raw)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--queries", type=int, default=40, help="most questions of each kind and repository")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worth", action="store_true", help="ask without each part of the ranking as well")
    parser.add_argument(
        "--misspelt",
        action="store_true",
        help="ask for identifiers with one slip of the keys and in another convention as well",
    )
    parser.add_argument("--fragments", action="store_true", help="ask for identifiers by parts of their names as well")
    parser.add_argument("--home", type=Path, default=HOME, help="where bundles are kept")
    options = parser.parse_args()
    settings = load_settings()
    corpora: list[Corpus] = []
    for folder in options.folders:
        name = folder.parent.name if folder.name in ("repo", ".git") else folder.name
        source = RepositorySettings(path=folder.absolute(), ref="HEAD", name=name.rsplit("+", 1)[-1])
        own = settings.model_copy(
            update={
                "sources": settings.sources.model_copy(update={"repositories": (source,)}),
                "scip": settings.scip.model_copy(update={"enabled": False}),
                "paths": settings.paths.model_copy(update={"store": options.home / "store"}),
            }
        )
        prepared = mine(own, options.home / name, options.queries, options.seed)
        print(f"{name}: {prepared.counts}", file=sys.stderr, flush=True)
        corpora.append((prepared.root, prepared.questions))
    figures: dict[str, dict[str, list[np.ndarray]]] = {way: {} for way in WAYS}
    for root, questions in corpora:
        with engine_over(root, settings.serving) as engine:
            asker = Asker(engine)
            for way in WAYS:
                run = asker.ask(way, questions, way, lambda _: None)
                for question, one in zip(questions, scores_of(questions, run), strict=True):
                    row = np.array([getattr(one, figure) for figure in FIGURES])
                    for kind in (question.kind, "all"):
                        figures[way].setdefault(kind, []).append(row)
    heads = " | ".join(f"{way} NDCG@10 / R@4k" for way in WAYS)
    print(f"\n| kind | questions | {heads} | hybrid - bm25, NDCG@10 | R@4k |")
    print(f"|---|---|{'---|' * (len(WAYS) + 2)}")
    for kind in sorted(figures["hybrid"]):
        rows = {way: np.stack(figures[way][kind]) for way in WAYS}
        low, high = intervals(rows["hybrid"] - rows["bm25"])
        means = [f"{rows[way].mean(axis=0)[0]:.3f} / {rows[way].mean(axis=0)[1]:.3f}" for way in WAYS]
        spans = [f"{low[at]:+.3f} to {high[at]:+.3f}" for at in range(len(FIGURES))]
        print(f"| {kind} | {len(rows['hybrid'])} | {' | '.join([*means, *spans])} |")
    if options.worth:
        print_worth(corpora, settings.serving)
    if options.misspelt:
        print_misspelt(corpora, settings.serving, options.seed)
    if options.fragments:
        print_fragments(corpora, settings.serving, options.seed)


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
