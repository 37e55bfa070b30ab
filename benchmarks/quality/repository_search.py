"""NDCG@10 on annotated queries about whole repositories, through the engine as it is served.

    python -m benchmarks.quality.repository_search --annotations FOLDER --repositories FOLDER [--only NAME] [--fresh]

``--annotations`` (or CODEQUARRY_ANNOTATIONS): a folder with ``repos.json``, a list of {name, language, url, revision,
benchmark_root}, and ``annotations/<name>.json``, lists of {query, relevant, secondary, category} whose targets are
paths, or {path, start_line, end_line} with lines from 1. ``--repositories`` (or CODEQUARRY_REPOSITORIES): a folder of
git clones, bare or not, each called ``<name>``, ``<owner>+<repository>`` or ``<owner>/<repository>``.

Each repository is indexed at its revision twice: ``root``, what lies below its benchmark root alone, and ``whole``.
Bundles stay below ``--home`` by revision and settings, so that a change of ranking is measured in seconds;
``--fresh`` builds them again. Ranking settings come from ``--settings`` and the environment, as for every command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality.ranking_parts import Corpus, print_cross_validated, print_worth
from benchmarks.report import percentile
from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.indexes.ranking_profile import profile_of
from codequarry.pipelines.measure.questions import Hit, Question, Target
from codequarry.pipelines.measure.ranking_metrics import DEPTH, ndcg, target_ranks
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import (
    BundleSettings,
    ChecksSettings,
    PathsSettings,
    RepositorySettings,
    Settings,
    load_settings,
)
from codequarry.schemas.wire.search import SearchRequest, SearchResult
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.version.open import Bundle

HOME = Path(__file__).resolve().parents[2] / ".codequarry" / "bench" / "repository-search"
VIEWS = ("root", "whole")


@dataclass(frozen=True, slots=True)
class Asked:
    """One query and how it went."""

    repo: str
    language: str
    view: str
    category: str
    query: str
    ndcg: float
    ranks: list[int | None]
    targets: list[str]
    returned: list[str]
    milliseconds: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Index what is not indexed yet, ask, and print."""
    options = _options(arguments)
    settings = load_settings(options.settings)
    listed = json.loads((options.annotations / "repos.json").read_text(encoding="utf-8"))
    asked: list[Asked] = []
    missing: list[str] = []
    corpora: dict[str, list[Corpus]] = {view: [] for view in options.view}
    for entry in listed:
        if options.only and entry["name"] not in options.only:
            continue
        clone = clone_of(options.repositories, entry)
        if clone is None:
            missing.append(entry["name"])
            continue
        labels = json.loads((options.annotations / "annotations" / f"{entry['name']}.json").read_text(encoding="utf-8"))
        root = (entry.get("benchmark_root") or "").strip("/")
        for view in options.view:
            below = root if view == "root" else ""
            bundle = bundle_of(options.home, settings, entry, clone, below, fresh=options.fresh)
            corpora[view].append((bundle, questions_of(labels)))
            asked += _ask(bundle, settings, entry, view, labels, options.channel)
            done = [one.ndcg for one in asked if (one.repo, one.view) == (entry["name"], view)]
            print(f"{entry['name']} {view}: {_mean(done):.3f}", file=sys.stderr, flush=True)
    if not asked:
        raise SystemExit(f"no repository of {options.annotations} has a clone with its revision: {', '.join(missing)}")
    _print(asked, options.view, missing)
    for view in options.view if options.worth else ():
        print(f"\n{view}:")
        print_worth(corpora[view], settings.serving)
    for view in options.view if options.cross_validate else ():
        print(f"\n{view}:", end="")
        print_cross_validated(corpora[view], settings.serving)
    if options.out:
        options.out.write_text(json.dumps([asdict(one) for one in asked], indent=1) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="repository_search", description=__doc__, formatter_class=RawDescription)
    for name in ("annotations", "repositories"):
        given = os.environ.get(f"CODEQUARRY_{name.upper()}")
        parser.add_argument(f"--{name}", type=Path, default=given and Path(given), required=given is None)
    parser.add_argument("--home", type=Path, default=HOME, help="where bundles are kept")
    parser.add_argument("--settings", type=Path, help="settings file (default: dagster_project.toml of this folder)")
    parser.add_argument("--channel", default="hybrid", help="ask one channel only")
    parser.add_argument("--only", action="append", help="only this repository; may be repeated")
    parser.add_argument("--view", action="append", choices=VIEWS, help="only this view; may be repeated")
    parser.add_argument("--worth", action="store_true", help="ask without each part of the ranking as well")
    parser.add_argument(
        "--cross-validate", action="store_true", help="fit a profile to two thirds and ask the rest, three times"
    )
    parser.add_argument("--fresh", action="store_true", help="build every bundle again")
    parser.add_argument("--out", type=Path, help="write every query's outcome there, as JSON")
    options = parser.parse_args(arguments)
    options.view = options.view or list(VIEWS)
    return options


class RawDescription(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


def clone_of(folder: Path, entry: dict[str, Any]) -> Path | None:
    """The git folder of a repository; None when there is none, or it lacks the revision."""
    owner, name = entry["url"].removesuffix(".git").rstrip("/").split("/")[-2:]
    for place in (entry["name"], f"{owner}+{name}", f"{owner}/{name}"):
        for git in (folder / place, folder / place / "repo"):
            if (git / ".git").exists() or (git / "objects").is_dir():
                found = subprocess.run(
                    ["git", "-C", git, "cat-file", "-e", f"{entry['revision']}^{{commit}}"], check=False,
                    capture_output=True,
                )  # fmt: skip
                return git if found.returncode == 0 else None
    return None


def bundle_of(home: Path, settings: Settings, entry: dict[str, Any], clone: Path, below: str, *, fresh: bool) -> Path:
    """Root of the bundle that holds a repository at its revision, or what lies below a folder of it."""
    patterns = _all_but(below)
    own = settings.model_copy(
        update={
            "sources": settings.sources.model_copy(update={
                "repositories": (RepositorySettings(name=entry["name"], path=clone, ref=entry["revision"]),),
                "exclude": (*settings.sources.exclude, *patterns),
            }),
            "scip": settings.scip.model_copy(update={"enabled": False}),
            # A secret in a public repository stops nothing here.
            "checks": ChecksSettings(),
            "secrets": settings.secrets.model_copy(update={"scan": False}),
        }
    )  # fmt: skip
    # Not the hash of our own code, which every edit of ranking changes too: see --fresh.
    format_of = compatibility(EncoderSpec.load(encoder_directories(own)["faiss"]).fingerprint).sha256
    key = hashlib.sha256(json.dumps([entry["revision"], own.index_hash(), format_of]).encode()).hexdigest()[:12]
    folder = home / f"{entry['name']}-{'root' if below else 'whole'}-{key}"
    root = BundleRoot(folder / "bundles")
    if fresh or not root.current.is_file():
        paths = PathsSettings(store=home / "store", work=folder / "work")
        index_repositories(
            own.model_copy(update={"paths": paths, "bundle": BundleSettings(root=root.path)}), force=fresh
        )
    return root.path


def _all_but(below: str) -> tuple[str, ...]:
    """Gitignore patterns that leave out everything but one folder.

    >>> _all_but("src/app")
    ('/*', '!/src/', '/src/*', '!/src/app/')
    """
    patterns: list[str] = []
    above = ""
    for part in filter(None, below.split("/")):
        patterns += [f"{above}/*", f"!{above}/{part}/"]
        above = f"{above}/{part}"
    return tuple(patterns)


def _ask(
    root: Path, settings: Settings, entry: dict[str, Any], view: str, labels: list[dict[str, Any]], channel: str
) -> Iterator[Asked]:
    engine = Engine(Bundle.open_current(root), settings.serving)
    engine.bundle.rank_by(profile_of(settings))
    try:
        engine.search(SearchRequest(query="warm up", channel=channel))  # pyright: ignore[reportArgumentType]
        for label in labels:
            targets = [_target(one) for one in (*label["relevant"], *label["secondary"])]
            request = SearchRequest(query=label["query"], top_k=DEPTH, channel=channel)  # pyright: ignore[reportArgumentType]
            started = time.perf_counter()
            answer = engine.search(request)
            spent = time.perf_counter() - started
            hits = [_hit(result) for result in answer.results]
            ranks = target_ranks(hits, targets)
            yield Asked(
                entry["name"], entry["language"], view, label["category"], label["query"], ndcg(ranks), ranks,
                [target.text() for target in targets], [hit.text() for hit in hits], 1000 * spent,
            )  # fmt: skip
    finally:
        engine.close()


def questions_of(labels: list[dict[str, Any]], repo: str = "") -> list[Question]:
    """Annotations as questions. repo: what the targets lie in; "" for whichever has their path."""
    return [
        Question(
            f"{number}", label["category"], label["query"],
            tuple(_target(one)._replace(repo=repo) for one in (*label["relevant"], *label["secondary"])),
        )
        for number, label in enumerate(labels)
    ]  # fmt: skip


def _target(written: str | dict[str, Any]) -> Target:
    if isinstance(written, str):
        return Target(written)
    return Target(written["path"], "", written["start_line"] - 1, written["end_line"] - 1)


def _hit(result: SearchResult) -> Hit:
    place = result.metadata
    repo, _, path = place.uri.partition("/")
    return Hit(repo, path, place.start_line, place.end_line, place.end_byte - place.start_byte, result.id)


def _print(asked: list[Asked], views: list[str], missing: list[str]) -> None:
    def row(name: str, chosen: list[Asked], *extra: str) -> str:
        by_view = [f"{_of_repositories([one for one in chosen if one.view == view]):.3f}" for view in views]
        return f"| {' | '.join([name, *extra, *by_view])} |"

    names = list(dict.fromkeys(one.repo for one in asked))
    heads = " | ".join(views)
    print(f"\n| repository | language | queries | {heads} |\n|---|---|---|{'---|' * len(views)}")
    for name in names:
        own = [one for one in asked if one.repo == name]
        print(row(name, own, own[0].language, str(len(own) // len(views))))
    print(f"\n| NDCG@10 | queries | {heads} |\n|---|---|{'---|' * len(views)}")
    for category in sorted({one.category for one in asked}):
        own = [one for one in asked if one.category == category]
        print(row(category, own, str(len(own) // len(views))))
    print(row(f"mean over {len(names)} repositories", asked, str(len(asked) // len(views))))
    times = [one.milliseconds for one in asked]
    print(f"\nlatency p50 {percentile(times, 0.5):.1f} ms, p95 {percentile(times, 0.95):.1f} ms")
    if missing:
        print(f"left out, no clone with the revision: {', '.join(missing)}")


def _of_repositories(asked: list[Asked]) -> float:
    """Mean over repositories of the mean over their queries."""
    by_repo: dict[str, list[float]] = defaultdict(list)
    for one in asked:
        by_repo[one.repo].append(one.ndcg)
    return _mean([_mean(values) for values in by_repo.values()])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
