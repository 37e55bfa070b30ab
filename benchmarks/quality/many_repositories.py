"""Several annotated repositories in one bundle: what it is worth that a query names the one it is about.

    python -m benchmarks.quality.many_repositories --annotations FOLDER --repositories FOLDER --only NAME --only NAME

Folders as of `benchmarks.quality.repository_search`. Every query is asked as it was annotated, and with the name of its
repository; its targets lie in that repository alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.quality.ranking_parts import figures_of
from benchmarks.quality.repository_search import HOME, clone_of, questions_of
from codequarry.pipelines.measure.asking import engine_over
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.ranking_profile import BUILT_IN
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, RepositorySettings, load_settings

_FORMS = {"as annotated": "{query}", "QUERY in NAME": "{query} in {name}", "NAME QUERY": "{name} {query}"}
_FACTORS = (1.0, 0.8, 0.6, 0.4, 0.2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Index what is not indexed yet, ask, and print."""
    parser = argparse.ArgumentParser(prog="many_repositories", description=__doc__)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=HOME, help="where bundles are kept")
    parser.add_argument("--only", action="append", required=True, help="this repository; to be repeated")
    options = parser.parse_args(arguments)
    settings = load_settings()
    sources: list[RepositorySettings] = []
    labels: dict[str, list[Question]] = {}
    for entry in json.loads((options.annotations / "repos.json").read_text(encoding="utf-8")):
        clone = clone_of(options.repositories, entry) if entry["name"] in options.only else None
        if clone is not None:
            name = entry["name"]
            sources.append(RepositorySettings(name=name, path=clone, ref=entry["revision"]))
            written = (options.annotations / "annotations" / f"{name}.json").read_text(encoding="utf-8")
            labels[name] = questions_of(json.loads(written), name)
    if len(labels) < 2:
        raise SystemExit(f"found clones with their revision of {', '.join(labels) or 'none'}, expected two or more")
    home = options.home / "many"
    root = BundleRoot(home / "bundles")
    index_repositories(
        settings.model_copy(
            update={
                "sources": settings.sources.model_copy(update={"repositories": tuple(sources)}),
                "scip": settings.scip.model_copy(update={"enabled": False}),
                "paths": PathsSettings(store=options.home / "store", work=home / "work"),
                "bundle": BundleSettings(root=root.path),
            }
        )
    )
    print(f"{len(labels)} repositories: {', '.join(labels)}\n")
    print("| asked | other_repository | NDCG@10 | change, 95 % |\n|---|---|---|---|")
    with engine_over(root.path, settings.serving) as engine:
        for form, written in _FORMS.items():
            asked = {
                name: [one._replace(query=written.format(query=one.query, name=name)) for one in questions]
                for name, questions in labels.items()
            }
            before = np.empty(0)
            for factor in _FACTORS:
                factors = BUILT_IN.factors.model_copy(update={"other_repository": factor})
                engine.bundle.rank_by(BUILT_IN.model_copy(update={"factors": factors}))
                found = [figures_of(engine, questions)[:, 0] for questions in asked.values()]
                every = np.concatenate(found)
                before = every if factor == 1 else before
                (low,), (high,) = intervals((every - before)[:, None])
                mean = np.mean([each.mean() for each in found])
                print(f"| {form} | {factor:g} | {mean:.3f} | {low:+.3f} to {high:+.3f} |", flush=True)


if __name__ == "__main__":
    main()
