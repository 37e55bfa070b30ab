"""``codequarry evaluate``: quality of the answers, on questions mined from one's own repositories or given."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import RepositoriesArgument, over
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wording import counted
from codequarry.serving.cli.finding.search import print_notes
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import print_table

if TYPE_CHECKING:
    from codequarry.pipelines.evaluation.evaluate import Side
    from codequarry.pipelines.measure.questions import Question

_OUT = Path(".codequarry/evaluation")
_RUNS = ("faiss", "faiss2", "warp", "splade", "bm25", "symbol", "faiss+warp", "hybrid", "hybrid+rerank")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    repositories: RepositoriesArgument = None,
    qrels: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE",
            help="Given questions: a BEIR or CoIR folder (corpus.jsonl, queries.jsonl, qrels.tsv), which is indexed by "
            "itself, or a JSONL file of {query, relevant: [{path, repo, start_line, end_line}]} about the bundle.",
        ),
    ] = None,
    queries: Annotated[int, typer.Option(min=1, help="Most mined questions of each kind.")] = 100,
    seed: Annotated[int, typer.Option(help="Draws other questions.")] = 0,
    channels: Annotated[
        str, typer.Option(help=f"Ask only in these ways, with commas between: {', '.join(_RUNS)}.", show_default="all")
    ] = "",
    compare: Annotated[
        str,
        typer.Option(
            metavar="OTHER",
            help="Ask the same of another side: a settings file, or, with a --qrels file, a bundle root or a version.",
        ),
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = _OUT,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Measure the answers: NDCG@10, MRR@10, recall, recall within 4,000 tokens, latency, each way of asking apart.

    Without --qrels the questions are mined from the repositories: a sentence of documentation asks for its function (in
    an index of which that documentation is left out), the subject of a commit for the functions it changed, and an
    identifier, an error message or a configuration key for the place that defines it. They are asked of an evaluation
    bundle in the work folder; the one that is served is not touched.

    The report (report.md with plots, summary.json, results.parquet with every answer, questions.jsonl) goes to --out.

    Examples:

      codequarry evaluate

      codequarry evaluate ~/src/app --queries 50 --channels bm25,hybrid

      codequarry evaluate --compare other-settings.toml

      codequarry evaluate --qrels .codequarry/evaluation/questions.jsonl --compare previous
    """
    settings = load_settings(settings_file, bundle_root=root)
    from codequarry.pipelines.evaluation.evaluate import evaluate_sides

    asked = tuple(name.strip() for name in channels.split(",") if name.strip())
    if unknown := [name for name in asked if name not in _RUNS]:
        raise InvalidArgumentError(
            f"--channels: found {', '.join(unknown)}, expected some of {', '.join(_RUNS)}",
            suggestion="write them like --channels bm25,hybrid",
        )
    with Bars() as bars, tempfile.TemporaryDirectory(prefix="codequarry-evaluation-") as temporary:
        if qrels is None:
            source, questions, sides, notes = _mined(
                over(settings, repositories or []), repositories or [], queries, seed, compare, bars
            )
        else:
            source, questions, sides, notes = _plan_for_judgements(settings, qrels, compare, Path(temporary), bars)
        summary = evaluate_sides(source, questions, sides, asked, out, notes, bars.show)
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False, indent=1))
        return
    _show(summary, out)


_Plan = tuple[str, Sequence["Question"], list["Side"], list[str]]
"""Source of the questions, the questions, the sides to ask, and notes."""


def _mined(settings: Settings, repositories: list[str], queries: int, seed: int, compare: str, bars: Bars) -> _Plan:
    from codequarry.pipelines.evaluation.evaluate import Side
    from codequarry.pipelines.evaluation.mining import mine

    home = settings.paths.work / "evaluation"
    prepared = mine(settings, home, queries, seed, bars.show)
    names = [source.name or source.place for source in settings.sources.repositories]
    sides = [Side("", prepared.root, "", settings.asking)]
    questions: Sequence[Question] = prepared.questions
    if compare:
        if not Path(compare).is_file():
            raise InvalidArgumentError(
                f"--compare: found {compare!r}, expected a settings file: mined questions have bundles of their own",
                suggestion=f"ask versions the questions of an earlier run: --qrels {_OUT / 'questions.jsonl'}",
            )
        other = over(load_settings(Path(compare)), repositories)
        if not repositories:
            other = other.model_copy(update={"sources": settings.sources})
        second = mine(other, settings.paths.work / "evaluation-compared", queries, seed, bars.show)
        if second.questions != prepared.questions:
            raise InvalidArgumentError(
                f"{compare} gives other questions than the settings: its sources or chunking change what is mined",
                suggestion="compare settings of the same sources, or give the questions with --qrels",
            )
        sides.append(Side("(compared)", second.root, "", other.asking))
    notes = [*prepared.notes, f"to ask the same again: --qrels QUESTIONS.jsonl of the report, --root {prepared.root}"]
    return f"mined from {', '.join(names)}", questions, sides, notes


def _plan_for_judgements(settings: Settings, qrels: Path, compare: str, temporary: Path, bars: Bars) -> _Plan:
    from codequarry.pipelines.evaluation.evaluate import Side, missing_targets
    from codequarry.pipelines.evaluation.qrels import is_collection, read_collection, read_questions

    if is_collection(qrels):
        found = read_collection(qrels, temporary / "corpus")
        notes = [counted(found.documents, "document")]
        notes += [f"{found.cut} queries were cut: a search takes fewer characters"] if found.cut else []
        sides = [_indexed(settings, "", temporary, bars)]
        if compare:
            sides.append(_indexed(_other_settings(compare), "(compared)", temporary, bars))
        return str(qrels), found.questions, sides, notes
    questions = read_questions(qrels)
    sides = [Side("", settings.bundle.root, "", settings.asking)]
    if compare:
        sides.append(_other_side(settings, compare))
    notes = [f"{side.label} {note}".strip() for side in sides for note in missing_targets(questions, side)]
    return str(qrels), questions, sides, notes


def _indexed(settings: Settings, label: str, temporary: Path, bars: Bars) -> Side:
    from codequarry.pipelines.evaluation.evaluate import Side
    from codequarry.pipelines.evaluation.mining import index_folder

    home = temporary / ("compared" if label else "evaluated")
    root = index_folder("corpus", temporary / "corpus", settings, home, bars.show)
    return Side(label, root, "", settings.asking)


def _other_side(settings: Settings, compare: str) -> Side:
    from codequarry.pipelines.evaluation.evaluate import Side

    path = Path(compare)
    if path.is_file():
        return Side("(compared)", settings.bundle.root, "", load_settings(path).asking)
    if BundleRoot(path).current.is_file():
        return Side("(compared)", path, "", settings.asking)
    return Side("(compared)", settings.bundle.root, compare, settings.asking)


def _other_settings(compare: str) -> Settings:
    if not Path(compare).is_file():
        raise InvalidArgumentError(
            f"--compare: found {compare!r}, expected a settings file: the documents are indexed for each side",
            suggestion="give the settings that the other side is indexed and served with",
        )
    return load_settings(Path(compare))


def _show(summary: dict[str, Any], out: Path) -> None:
    from codequarry.pipelines.measure import report
    from codequarry.pipelines.measure.results import OVERALL

    def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
        print_table(head, rows, whole=len(head))

    kinds = summary["questions"]
    typer.echo(f"{counted(sum(kinds.values()), 'question')}, {summary['source']}")
    print_notes(summary["notes"])
    table(*report.means_table(summary))
    if len(kinds) > 1:
        table(*report.classes_table(summary))
    table(*report.ladder_table(summary))
    head, rows = report.differences_table(summary)
    table(head, [row for row in rows if row[1] == OVERALL or row[-1] == "worse"])
    table(*report.latency_table(summary))
    typer.echo(f"report: {out / 'report.md'}")
