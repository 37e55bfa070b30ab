"""Tests that a commit affects: of commits that change one source file and its tests, is the changed test named first?

    python -m benchmarks.lookups.affected_tests FOLDER... [--commits N] [--home DIR]

Each folder is a git clone, bare or not. The version of a commit's parent is indexed, and asked with the diff of the
source file alone. A commit counts when it changes one file of source code, and tests that the parent has.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.sources.path_classes import path_class
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.languages import DATA_LANGUAGES, language_of
from codequarry.schemas.settings.load import RepositorySettings, Settings, load_settings
from codequarry.schemas.wire.relations import RelationsRequest
from codequarry.serving.request.deadline import NEVER
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.relations.relations import relations
from codequarry.serving.version.open import Bundle

HOME = Path(__file__).resolve().parents[2] / ".codequarry" / "bench" / "affected-tests"
_FIRST = 5
_EXAMINED = 4_000
"""Commits of a history that are looked at."""
_MARK = "\x1e"


class TestedCommit(NamedTuple):
    """A commit that changes one source file and tests."""

    __test__ = False

    id: str
    source: str
    tests: tuple[str, ...]


def main() -> None:
    """Index the parents, ask, and print."""
    parser = argparse.ArgumentParser(prog="affected_tests", description=__doc__, formatter_class=_Plain)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--commits", type=int, default=30, help="most commits of each repository, the newest ones")
    parser.add_argument("--home", type=Path, default=HOME, help="where bundles are kept")
    parser.add_argument("--misses", action="store_true", help="print the commits whose test is not among the first")
    options = parser.parse_args()
    ranks: dict[str, list[int]] = {}
    reasons = Counter[str]()
    for folder in options.folders:
        name = (folder.parent.name if folder.name in ("repo", ".git") else folder.name).rsplit("+", 1)[-1]
        for commit in tested_commits(folder, options.commits):
            try:
                rank, reason = ask(folder, name, commit, options.home / name)
            except CodequarryError as error:
                print(f"{name} {commit.id[:12]}: {error}", file=sys.stderr, flush=True)
                continue
            ranks.setdefault(name, []).append(rank)
            reasons[reason] += 1
            if options.misses and not 0 < rank <= _FIRST:
                print(f"{name} {commit.id[:12]} rank {rank}: {commit.source} -> {', '.join(commit.tests)}", flush=True)
        if name in ranks:
            print(_row(name, ranks[name]), file=sys.stderr, flush=True)
    print("\n| repository | commits | first | among 5 | named at all |\n|---|---|---|---|---|")
    for name, own in ranks.items():
        print(_row(name, own))
    print(_row("all", [rank for own in ranks.values() for rank in own]))
    print(f"\nevidence of the right test: {dict(reasons.most_common())}")


def tested_commits(folder: Path, most: int) -> list[TestedCommit]:
    """Return commits that change one file of source code and tests, the newest first.

    Args:
        folder: Git clone.
        most: How many.

    Returns:
        The commits; those that add or delete their source or all of their tests are left out.
    """
    log = _git(folder, "log", f"-{_EXAMINED}", "--no-merges", "--no-renames", f"--format={_MARK}%H", "--name-status")
    found: list[TestedCommit] = []
    for entry in log.split(_MARK)[1:]:
        head, *lines = [line for line in entry.split("\n") if line]
        changes = [line.split("\t") for line in lines if "\t" in line]
        code = [(state, path) for state, path in changes if language_of(path) not in ("", None, *DATA_LANGUAGES)]
        sources = [path for state, path in code if path_class(path) == "source"]
        tests = tuple(path for state, path in code if state == "M" and path_class(path) == "test")
        if len(sources) == 1 and tests and ("M", sources[0]) in code:
            found.append(TestedCommit(head, sources[0], tests))
            if len(found) == most:
                break
    return found


def ask(folder: Path, name: str, commit: TestedCommit, home: Path) -> tuple[int, str]:
    """Return the rank of the first test that a commit changes, 0 where it is not named, and its evidence.

    Args:
        folder: Git clone.
        name: Name of the repository.
        commit: The commit.
        home: Folder of its bundles.

    Returns:
        Rank, from 1, and evidence.
    """
    bundle = _version_of(folder, name, commit, home)
    try:
        diff = _git(folder, "diff", f"{commit.id}~", commit.id, "--", commit.source)
        context = ToolContext(bundle, load_settings().serving, NEVER)
        answer = relations(context, RelationsRequest(kind="affected_tests", target=diff[:200_000], limit=200))
    finally:
        bundle.close()
    wanted = {f"{name}/{path}" for path in commit.tests}
    for rank, one in enumerate(answer.results, start=1):
        if one.uri in wanted:
            return rank, one.evidence if one.name else one.reason.partition(" ")[2].partition(" ")[0] or one.evidence
    return 0, "none"


def _version_of(folder: Path, name: str, commit: TestedCommit, home: Path) -> Bundle:
    """Return the version of a commit's parent, which is indexed where it is not there yet."""
    root, remembered = BundleRoot(home / "bundles"), home / "versions" / commit.id
    if not remembered.exists():
        report = index_repositories(_settings(folder, name, commit, home), force=True, accept="a benchmark")
        remembered.parent.mkdir(parents=True, exist_ok=True)
        remembered.write_text(f"{report.manifest.version} {root.read_current().manifest_sha256}")
    version, sha256 = remembered.read_text().split()
    return Bundle.open_version(root, Current(version=version, manifest_sha256=sha256), channels=("bm25",))


def _settings(folder: Path, name: str, commit: TestedCommit, home: Path) -> Settings:
    settings = load_settings()
    parent = _git(folder, "rev-parse", f"{commit.id}~").strip()
    source = RepositorySettings(path=folder.absolute(), ref=parent, name=name)
    return settings.model_copy(
        update={
            "sources": settings.sources.model_copy(update={"repositories": (source,)}),
            "scip": settings.scip.model_copy(update={"enabled": False}),
            "bundle": settings.bundle.model_copy(update={"root": home / "bundles", "keep_versions": 1_000}),
            "paths": settings.paths.model_copy(update={"store": home.parent / "store", "work": home / "work"}),
        }
    )


def _row(name: str, ranks: Sequence[int]) -> str:
    shares = [sum(0 < rank <= most for rank in ranks) / max(1, len(ranks)) for most in (1, _FIRST, 10_000)]
    return f"| {name} | {len(ranks)} | {' | '.join(f'{share:.0%}' for share in shares)} |"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace")


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
