"""The verdict page: results of the retrieval gate, in Markdown with plots, beside the version it is of.

``<root>/verdicts/<version>/``: ``verdict.md``, ``verdict.json`` and plots. It holds times, and stopped versions have
one as well, so it is no part of a version. The page of a notebook lies there too, also where there is no verdict.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codequarry.pipelines.measure.questions import Hit, Question
from codequarry.pipelines.measure.ranking_metrics import TITLES
from codequarry.pipelines.measure.report import Bar, bars, rounded
from codequarry.pipelines.measure.results import COMPARED, OVERALL, Run
from codequarry.schemas.bundle.faiss_tuning import FaissTuning
from codequarry.schemas.bundle.layout import BundleRoot, is_version_name
from codequarry.schemas.errors import NotFoundError
from codequarry.serving.version.check import Check

PAGE = "verdict.md"
_KEPT_STOPPED = 5
"""Number of verdicts kept for versions that are not there, the newest ones."""
_MOVED = 50
"""Questions whose ranks are kept."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A staged version and CURRENT, asked the same questions."""

    version: str
    against: str
    questions: tuple[Question, ...]
    staged: Run
    current: Run
    summaries: Mapping[str, Any]
    """By name of the run, as `results.summary_of_run`."""
    differences: tuple[dict[str, Any], ...]
    """The differences, see `results.difference`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Contents of the page."""

    version: str
    checks: tuple[Check, ...]
    compared: Comparison | None
    tunings: Mapping[str, FaissTuning]
    """Of the dense indexes that are not exact, by channel."""

    @property
    def passed(self) -> bool:
        """True when every check passed."""
        return all(check.passed for check in self.checks)


def write_verdict(root: BundleRoot, verdict: Verdict) -> Path:
    """Write the page of a version, and remove pages of versions long gone.

    Args:
        root: Bundle root.
        verdict: Contents of the page.

    Returns:
        Folder of the page.

    Raises:
        OSError: The disk refuses; nothing of the page is left.
    """
    folder = root.verdicts / verdict.version
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        _write_files(folder, verdict)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    remove_old_verdicts(root, verdict.version)
    return folder


def remove_old_verdicts(root: BundleRoot, staged: str = "") -> None:
    """Remove the folders of versions that are not there, but for the newest ones.

    Args:
        root: Bundle root.
        staged: Version that counts as there.
    """
    there = {*root.version_names(), staged}
    for name in [name for name in _oldest_first(root, "") if name not in there][:-_KEPT_STOPPED]:
        shutil.rmtree(root.verdicts / name, ignore_errors=True)


def _write_files(folder: Path, verdict: Verdict) -> None:
    for name, chart in _plots(verdict).items():
        (folder / name).write_text(chart, encoding="utf-8")
    (folder / PAGE).write_text(markdown(verdict), encoding="utf-8")
    told = {
        "version": verdict.version,
        "passed": verdict.passed,
        "checks": [asdict(check) for check in verdict.checks],
        "against": verdict.compared.against if verdict.compared else "",
        "runs": verdict.compared.summaries if verdict.compared else {},
        "differences": list(verdict.compared.differences) if verdict.compared else [],
        "moved": moved_questions(verdict.compared) if verdict.compared else [],
    }
    text = json.dumps(rounded(told), ensure_ascii=False, indent=1)
    (folder / "verdict.json").write_text(text + "\n", encoding="utf-8")


def moved_questions(compared: Comparison) -> list[dict[str, Any]]:
    """List the questions whose answer stands at another rank than before, those that moved most first.

    Args:
        compared: The two versions and what they answered.

    Returns:
        Query, kind, and rank of the first answer in both, 0 where it was not found; at most 50.
    """
    asked = zip(compared.questions, compared.current.hits, compared.staged.hits, strict=True)
    ranks = [(question, _first_rank(question, was), _first_rank(question, now)) for question, was, now in asked]
    moved = [each for each in ranks if each[1] != each[2]]
    moved.sort(key=lambda each: (-abs(_worth(each[1]) - _worth(each[2])), each[0].query))
    return [
        {"query": question.query, "kind": question.kind, "before": was, "after": now}
        for question, was, now in moved[:_MOVED]
    ]


def _first_rank(question: Question, hits: Sequence[Hit]) -> int:
    found = (rank for rank, hit in enumerate(hits, start=1) if any(hit.answers(one) for one in question.targets))
    return next(found, 0)


def _worth(rank: int) -> float:
    return 1 / rank if rank else 0.0


def verdict_names(root: BundleRoot) -> list[str]:
    """Return the versions that have a verdict, oldest first; other pages may lie in folders without one."""
    return _oldest_first(root, PAGE)


def _oldest_first(root: BundleRoot, file: str) -> list[str]:
    if not root.verdicts.is_dir():
        return []
    places = {entry.name: entry / file for entry in root.verdicts.iterdir() if is_version_name(entry.name)}
    # Not by name: two versions of one second differ in their digests alone.
    times = {name: place.stat().st_mtime_ns for name, place in places.items() if place.exists()}
    return sorted(times, key=lambda name: (times[name], name))


def read_verdict(root: BundleRoot, version: str = "", file: str = PAGE) -> str:
    """Read a file of a verdict.

    Args:
        root: Bundle root.
        version: Name of the version; "" for the newest verdict.
        file: Name of the file.

    Returns:
        Text of the file.

    Raises:
        NotFoundError: There is no such verdict.
    """
    names = verdict_names(root)
    name = version or (names[-1] if names else "")
    if name not in names:
        raise NotFoundError(
            f"no verdict of {name or 'any version'}; there are: {', '.join(names) or 'none'}",
            suggestion="index with [retrieval] enabled = true, or name one of them",
        )
    return (root.verdicts / name / file).read_text(encoding="utf-8")


def markdown(verdict: Verdict) -> str:
    """Return the page as Markdown."""
    failed = [check for check in verdict.checks if not check.passed]
    said = "passed" if not failed else f"stopped by {len(failed)} of {len(verdict.checks)} checks"
    lines = [f"# {verdict.version}: {said}", ""]
    for check in failed:
        lines.append(f"- **{check.name}**: {check.found}, expected {check.expected}")
        lines += [f"  - {_cell(example)}" for example in check.examples]
    lines += ["", "## Checks", "", "| check | | found | expected |", "|---|---|---|---|"]
    for check in verdict.checks:
        mark = "passed" if check.passed else "FAILED"
        lines.append(f"| {' | '.join(map(_cell, (check.name, mark, check.found, check.expected)))} |")
    if verdict.compared is not None and verdict.compared.questions:
        compared = verdict.compared
        lines += [
            "",
            f"## Answers against {compared.against}",
            "",
            f"{len(compared.questions)} questions, asked of both.",
        ]
        lines += [f"\n![{TITLES[metric]}]({metric}.svg)" for metric in COMPARED]
        lines += ["", "![Time of a search](latency.svg)"]
    for channel, tuning in verdict.tunings.items():
        lines += ["", f"## Operating points of {channel}", "", f"{tuning.factory}, {tuning.vectors:,} vectors.", ""]
        lines += ["| parameters | recall@10 | compared | |", "|---|---|---|---|"]
        for point in tuning.frontier:
            used = "in use" if point == tuning.chosen else ""
            lines.append(f"| {point.parameters or 'none'} | {point.recall:.4f} | {point.comparisons:,.0f} | {used} |")
        lines += ["", f"![Recall of {channel}]({channel}.svg)"]
    return "\n".join(lines) + "\n"


def _plots(verdict: Verdict) -> dict[str, str]:
    """Return charts by file name."""
    found: dict[str, str] = {}
    if verdict.compared is not None and verdict.compared.questions:
        runs = verdict.compared.summaries
        kinds = [OVERALL, *sorted({question.kind for question in verdict.compared.questions})]
        for metric in COMPARED:
            groups = {
                kind: {name: _bar(run["figures"][kind][metric]) for name, run in runs.items()} for kind in kinds
            }  # fmt: skip
            found[f"{metric}.svg"] = bars(f"{TITLES[metric]} by language", groups)
        times = {name: run["latency_ms"] for name, run in runs.items()}
        spent = {name: Bar(each["p50"], each["p50"], each["p95"]) for name, each in times.items()}
        found["latency.svg"] = bars("Time of a search, p50 with p95 as whisker", {"whole call": spent}, unit="ms")
    for channel, tuning in verdict.tunings.items():
        groups = {
            point.parameters or "none": {"recall@10": Bar(point.recall, point.recall, point.recall)}
            for point in tuning.frontier
        }
        found[f"{channel}.svg"] = bars(f"recall@10 of {tuning.factory} by operating point", groups)
    return found


def _bar(figure: Mapping[str, float]) -> Bar:
    return Bar(figure["mean"], figure["low"], figure["high"])


def _cell(text: str) -> str:
    """Return text as one line of a table cell, without characters that Markdown would interpret."""
    return "".join(f"\\{char}" if char in "\\|`*_<>[]#~" else char for char in " ".join(text.split()))
