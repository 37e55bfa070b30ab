"""Issues as they were written: is a file that their fix changes among the first five, and its function among ten?

    python -m benchmarks.quality.issue_search LABELS... --repositories FOLDER [--only NAME] [--most N] [--out FILE]
        [--against FILE]

``LABELS``: JSON files, each a list of {instance_id, repo, base_commit, problem_statement, golden_patch}, as SWE-bench
Lite and Verified have them. ``--repositories`` (or CODEQUARRY_REPOSITORIES): a folder of git clones with their history,
as of `benchmarks.quality.repository_search`. Each issue is asked by one plain call, about the whole repository at its
base commit; of a longer text the first 4,096 characters. ``--without``: files of the same form, whose issues are left
out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.repository_search import RawDescription, bundle_of, clone_of
from benchmarks.report import percentile
from codequarry.pipelines.indexes.ranking_profile import profile_of
from codequarry.pipelines.measure.asking import engine_over
from codequarry.pipelines.measure.ranking_metrics import intervals
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wire.search import MAX_QUERY_CHARS, SearchRequest, SearchResult
from codequarry.serving.text.query_classes import analyze_query

HOME = Path(__file__).resolve().parents[2] / ".codequarry" / "bench" / "issue-search"
RESULTS, FILES = 10, 5
_FILE = re.compile(r"^--- a/(.+)$", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IssueOutcome:
    """One issue and how it was answered."""

    repo: str
    id: str
    kind: str
    """Class of the query."""
    file_5: float
    """1 when a file that the fix changes is among the first five files of ten results."""
    function_10: float
    """1 when one of ten results holds lines that the fix changes."""
    first: int
    """1-based place of the first result in a changed file; 0 without one."""
    milliseconds: float


def changed_lines(patch: str) -> dict[str, set[int]]:
    """Return the lines that a patch removes, or adds lines behind, by path; lines from 0.

    >>> changed_lines("--- a/x.py\\n+++ b/x.py\\n@@ -3,3 +3,3 @@ def f():\\n a\\n-b\\n+c\\n d\\n")
    {'x.py': {3}}
    """
    found: dict[str, set[int]] = {}
    for part in re.split(r"^diff --git .*\n", patch, flags=re.MULTILINE):
        name = _FILE.search(part)
        if name is None:
            continue
        lines = found.setdefault(name.group(1), set())
        for hunk in _HUNK.finditer(part):
            at = int(hunk.group(1)) - 1
            body = part[hunk.end() :].split("\n")[1:]
            for line in body:
                if line.startswith("@@"):
                    break
                if line.startswith("-"):
                    lines.add(at)
                elif line.startswith("+"):
                    lines.add(max(at - 1, 0))
                at += not line.startswith("+")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Index what is not indexed yet, ask, and print."""
    options = _options(arguments)
    settings = load_settings(options.settings)
    left_out = {one["instance_id"] for path in options.without for one in json.loads(path.read_text(encoding="utf-8"))}
    by_repo: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in options.labels:
        for one in json.loads(path.read_text(encoding="utf-8")):
            name = one["repo"].split("/")[-1]
            if one["instance_id"] not in left_out and (not options.only or name in options.only):
                by_repo[name].append(one)
    outcomes: list[IssueOutcome] = []
    missing: dict[str, int] = defaultdict(int)
    for name, issues in sorted(by_repo.items()):
        for issue in sorted(issues, key=lambda one: one["instance_id"])[: options.most]:
            place = {
                "name": name, "url": f"https://github.com/{issue['repo']}", "revision": issue["base_commit"]
            }  # fmt: skip
            clone = clone_of(options.repositories, place)
            if clone is None:
                missing[name] += 1
                continue
            root = bundle_of(options.home, settings, place, clone, "", fresh=False)
            outcomes.append(ask(root, name, issue, settings))
            print(f"{issue['instance_id']}: place {outcomes[-1].first}", file=sys.stderr, flush=True)
    if not outcomes:
        raise SystemExit(f"no repository with a base commit was found in {options.repositories}")
    _print(outcomes, missing)
    if options.against:
        _print_difference(outcomes, json.loads(options.against.read_text(encoding="utf-8")))
    if options.out:
        options.out.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n", encoding="utf-8")


def ask(root: Path, name: str, issue: dict[str, Any], settings: Settings) -> IssueOutcome:
    """Ask the text of an issue by one plain call.

    Args:
        root: Root of the bundle of its repository.
        name: Name of the repository.
        issue: The issue, with its patch.
        settings: Settings of search and ranking.

    Returns:
        How it was answered.
    """
    changed, text = changed_lines(issue["golden_patch"]), issue["problem_statement"][:MAX_QUERY_CHARS]
    with engine_over(root, settings.serving) as engine:
        engine.bundle.rank_by(profile_of(settings))
        engine.search(SearchRequest(query="warm up"))
        started = time.perf_counter()
        answer = engine.search(SearchRequest(query=text, top_k=RESULTS))
        spent = time.perf_counter() - started
    paths = [_path(result) for result in answer.results]
    files = list(dict.fromkeys(paths))
    places = [place for place, path in enumerate(paths, 1) if path in changed]
    held = any(
        not changed.get(_path(result), set()).isdisjoint(
            range(result.metadata.start_line, result.metadata.end_line + 1)
        )
        for result in answer.results
    )
    return IssueOutcome(
        name, issue["instance_id"], analyze_query(text).kind,
        float(any(path in changed for path in files[:FILES])), float(held), places[0] if places else 0, 1000 * spent,
    )  # fmt: skip


def _path(result: SearchResult) -> str:
    return result.metadata.uri.partition("/")[2]


def _print(outcomes: Sequence[IssueOutcome], missing: dict[str, int]) -> None:
    def rows(key: str) -> Iterator[str]:
        groups: dict[str, list[IssueOutcome]] = defaultdict(list)
        for one in outcomes:
            groups[getattr(one, key)].append(one)
        for name, own in sorted(groups.items()):
            yield f"| {name} | {len(own)} | {_share(own, 'file_5')} | {_share(own, 'function_10')} |"

    for key in ("repo", "kind"):
        print(f"\n| {key} | issues | file among five | function among ten |\n|---|---|---|---|")
        print(*rows(key), sep="\n")
    print(f"| all | {len(outcomes)} | {_share(outcomes, 'file_5')} | {_share(outcomes, 'function_10')} |")
    times = [one.milliseconds for one in outcomes]
    print(f"\nlatency p50 {percentile(times, 0.5):.1f} ms, p95 {percentile(times, 0.95):.1f} ms")
    if missing:
        print(
            f"left out, no clone with the commit: {', '.join(f'{count} of {name}' for name, count in missing.items())}"
        )


def _share(outcomes: Sequence[IssueOutcome], name: str) -> str:
    return f"{100 * np.mean([getattr(one, name) for one in outcomes]):.1f} %"


def _print_difference(outcomes: Sequence[IssueOutcome], before: Sequence[dict[str, Any]]) -> None:
    earlier = {one["id"]: one for one in before}
    own = [one for one in outcomes if one.id in earlier]
    print(f"\n{len(own)} issues in both:")
    for name in ("file_5", "function_10"):
        change = np.array([[getattr(one, name) - earlier[one.id][name]] for one in own])
        (low,), (high,) = intervals(change)
        print(f"{name}: {100 * change.mean():+.1f} of 100, 95 % {100 * low:+.1f} to {100 * high:+.1f}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="issue_search", description=__doc__, formatter_class=RawDescription)
    parser.add_argument("labels", nargs="+", type=Path)
    given = os.environ.get("CODEQUARRY_REPOSITORIES")
    parser.add_argument("--repositories", type=Path, default=given and Path(given), required=given is None)
    parser.add_argument("--home", type=Path, default=HOME, help="where bundles are kept")
    parser.add_argument("--settings", type=Path, help="settings file (default: dagster_project.toml of this folder)")
    parser.add_argument("--only", action="append", help="only this repository; may be repeated")
    parser.add_argument("--without", type=Path, action="append", default=[], help="leave out the issues of this file")
    parser.add_argument("--most", type=int, help="most issues of each repository")
    parser.add_argument("--out", type=Path, help="write the outcome of each issue there, as JSON")
    parser.add_argument("--against", type=Path, help="compare with the outcomes that --out of other code wrote")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
