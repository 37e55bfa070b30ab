"""An evaluation from its questions to its report: every way of asking one bundle, or two, and their differences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codequarry.pipelines.evaluation.qrels import write_questions
from codequarry.pipelines.measure.asking import Asker, engine_over
from codequarry.pipelines.measure.ladder import comparisons, how_to_ask, rungs, runs_of, strangers
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.report import rounded, write_report
from codequarry.pipelines.measure.results import Run, difference, summary_of_run, write_results
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.ranking.rerank import Reranker


@dataclass(frozen=True, slots=True)
class Side:
    """One bundle and the settings it is served with."""

    label: str
    """Put behind the names of its runs; "" for the side that is evaluated."""
    root: Path
    """Bundle root; its current version is asked."""
    version: str
    """Another version than the current one; "" for that."""
    serving: ServingSettings


def evaluate_sides(
    source: str,
    questions: Sequence[Question],
    sides: Sequence[Side],
    channels: Collection[str],
    out: Path,
    notes: Sequence[str],
    progress: Progress,
) -> dict[str, Any]:
    """Ask every question in every way, write the report and return its summary.

    Args:
        source: Description of the questions in a few words.
        questions: Questions to ask.
        sides: One, or two that are compared.
        channels: Only these runs; empty for all.
        out: Folder of the report, created when missing.
        notes: Notes for the report.
        progress: Told of the questions answered.

    Returns:
        The summary, rounded.

    Raises:
        InvalidArgumentError: A channel was named that no side serves.
        CodequarryError: As `Engine.search` does.
    """
    runs: list[Run] = []
    bundles: dict[str, Any] = {}
    pairs: list[tuple[str, str]] = []
    ladder: list[dict[str, str]] = []
    for side in sides:
        served, reranks, version, made = _runs_of_side(side, questions, channels, progress)
        bundles[side.label or "evaluated"] = {"version": version, "channels": served}
        if not side.label:
            ladder = rungs([run.name for run in made], served, reranks=reranks)
            pairs = comparisons([run.name for run in made], ladder)
        else:
            names = {run.name for run in runs}
            pairs += [(name, run.name) for run in made if (name := run.name.removesuffix(f" {side.label}")) in names]
        runs += made
    by_name = {run.name: run for run in runs}
    kinds = sorted({question.kind for question in questions})
    summary = {
        "source": source,
        "questions": {kind: sum(question.kind == kind for question in questions) for kind in kinds},
        "bundles": bundles,
        "runs": {run.name: summary_of_run(questions, run) for run in runs},
        "ladder": ladder,
        "differences": [
            one for this, that in pairs for one in difference(questions, by_name[this], by_name[that])
        ],
        "notes": list(notes),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_questions(out / "questions.jsonl", questions)
    write_results(out, questions, runs)
    write_report(out, summary)
    return rounded(summary)


def missing_targets(questions: Sequence[Question], side: Side) -> list[str]:
    """Return a note on targets that lie in no file of the bundle.

    Args:
        questions: The questions.
        side: The bundle.

    Returns:
        One note, or none.

    Raises:
        InvalidArgumentError: No target lies in the bundle, so that the questions are of another one.
    """
    with engine_over(side.root, side.serving, side.version) as engine:
        directory = engine.bundle.directory
        paths = set(directory.paths)
        places = set(zip(directory.repos, directory.paths, strict=True))
    asked = [target for question in questions for target in question.targets]
    lost = [one for one in asked if (one.repo, one.path) not in places and (one.repo or one.path not in paths)]
    if len(lost) == len(asked):
        raise InvalidArgumentError(
            f"none of the {len(asked)} targets is a file of the bundle, the first being {asked[0].text()}",
            suggestion="paths are relative to their repository; give --root the bundle the questions are of",
        )
    return [f"{len(lost)} of {len(asked)} targets are no file of the bundle, e.g. {lost[0].text()}"] if lost else []


def _runs_of_side(
    side: Side, questions: Sequence[Question], channels: Collection[str], progress: Progress
) -> tuple[list[str], bool, str, list[Run]]:
    """Return the channels that a side serves, whether a language model reranks there, its version, and its runs."""
    made: list[Run] = []
    with engine_over(side.root, side.serving, side.version) as engine:
        served = [name for name in engine.bundle.channels if name not in engine.bundle.problems()]
        engine.reranker = engine.reranker or local_reranker(side.serving)
        reranks = engine.reranker is not None
        names = runs_of(served, channels, reranks=reranks)
        if not names:
            expected = ", ".join(runs_of(served, (), reranks=reranks))
            raise InvalidArgumentError(
                f"channels: found {', '.join(channels)}, expected some of {expected}",
                suggestion="leave --channels out to ask in every way the bundle allows",
            )
        asker = Asker(engine)
        for name in names:
            what = f"asking {name}{side.label and ' '}{side.label}"
            channel, engine.settings = how_to_ask(name, side.serving)
            run = asker.ask(
                f"{name} {side.label}".strip(), questions, channel,
                lambda done, what=what: progress(what, done, len(questions)),
            )  # fmt: skip
            if not strangers(name, run.channels):
                made.append(run)
        version = engine.bundle.manifest.version
    return served, reranks, version, made


def local_reranker(serving: ServingSettings) -> Reranker | None:
    """Return a language model run in this process, when the settings name one and no server for it.

    Args:
        serving: Settings of the service.

    Returns:
        The reranker, or None.

    Raises:
        MissingExtraError: The extra ``transformers`` is not installed.
        UnavailableError: There is no such model.
    """
    if not serving.reranker_model or serving.reranker_endpoint:
        return None
    from codequarry.pipelines.evaluation.local_chat import local_chat

    budget_s = serving.reranker_budget_ms / 1000
    return Reranker(local_chat(serving.reranker_model), candidates=serving.reranker_candidates, budget_s=budget_s)
