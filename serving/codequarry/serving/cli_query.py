"""``codequarry search`` and ``codequarry fetch``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings import Settings, load_settings
from codequarry.schemas.tools import (
    MAX_TOKENS_DEFAULT,
    TOP_K_DEFAULT,
    FetchRequest,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    to_wire,
)
from codequarry.serving.arguments import parse
from codequarry.serving.cli_options import (
    ExcludeOption,
    IncludeOption,
    JsonOption,
    LangOption,
    RepoOption,
    RootOption,
    SettingsOption,
    SymbolOption,
    filters_of,
)

if TYPE_CHECKING:
    from codequarry.serving.engine import Engine


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("search")(search)
    app.command("fetch")(fetch)


def search(
    query: Annotated[str, typer.Argument(help="A question, an identifier, an error message.")],
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="How many results, 1 to 50.")] = TOP_K_DEFAULT,
    channel: Annotated[
        str,
        typer.Option(help="hybrid, or one index: faiss (meaning), warp (tokens), bm25 (words), symbol (names)."),
    ] = "hybrid",
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    symbol: SymbolOption = None,
    rerank_model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="Let this language model order the first results, at [serving] reranker_endpoint.",
            show_default="reranker_model of the settings, if reranker_always",
        ),
    ] = "",
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score was made.")] = False,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find code by meaning and by words.

    Example: codequarry search "where are expired sessions removed" --lang python --exclude "**/tests/**"
    """
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, symbols=symbol)
    request = parse(SearchRequest, {"query": query, "top_k": top_k, "channel": channel, "filters": filters})
    settings = load_settings(settings_file, bundle_root=root)
    if rerank_model:
        settings = _reranking(settings, rerank_model)
    with open_engine(settings) as engine:
        answer = engine.search(request)
    if as_json:
        typer.echo(json.dumps(to_wire(answer), ensure_ascii=False, indent=2))
        return
    _show(answer, explain)


def _reranking(settings: Settings, model: str) -> Settings:
    """The settings with a language model that is always asked. Raises InvalidArgumentError: they name no server."""
    if not settings.serving.reranker_endpoint:
        raise InvalidArgumentError(
            "--rerank-model: the settings name no server that runs it",
            suggestion="set [serving] reranker_endpoint to the address of an OpenAI-compatible server",
        )
    changed = {"reranker_model": model, "reranker_always": True}
    return settings.model_copy(update={"serving": settings.serving.model_copy(update=changed)})


def fetch(
    ids: Annotated[list[str], typer.Argument(help="Ids from search.")],
    max_tokens: Annotated[int, typer.Option(help="Budget of the whole answer, 256 to 16000.")] = MAX_TOKENS_DEFAULT,
    resolve: Annotated[str, typer.Option(help="full, summary or metadata_only.")] = "full",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Print the code of chunks by their ids.

    Example: codequarry fetch 4611686018427387904 --max-tokens 2000
    """
    request = parse(FetchRequest, {"objectIds": ids, "max_tokens": max_tokens, "resolve": resolve})
    with open_engine(load_settings(settings_file, bundle_root=root), channels=()) as engine:
        answer = engine.fetch(request)
    failed = [one for one in answer.objects if one.error is not None]
    if as_json:
        typer.echo(json.dumps(to_wire(answer), ensure_ascii=False, indent=2))
    else:
        for one in answer.objects:
            if one.error is None:
                typer.secho(f"{one.title}  ({one.id})", bold=True)
                typer.echo(for_terminal(one.content))
        print_notes([*(one.error.message for one in failed if one.error), *answer.limits])
    if failed:
        raise typer.Exit(1)


@contextmanager
def open_engine(settings: Settings, *, channels: Iterable[str] | None = None) -> Iterator[Engine]:
    """The engine over the current version. channels: what to map; None for all that are served."""
    from codequarry.serving.bundle import SERVED_CHANNELS, Bundle
    from codequarry.serving.engine import Engine

    wanted = SERVED_CHANNELS if channels is None else channels
    threads, endpoint = settings.serving.warp_threads, settings.serving.queries_go_to
    bundle = Bundle.open_current(settings.bundle.root, channels=wanted, warp_threads=threads, endpoint=endpoint)
    engine = Engine(bundle, settings.serving)
    try:
        yield engine
    finally:
        engine.close()


def _show(answer: SearchAnswer, explain: bool) -> None:
    for number, result in enumerate(answer.results, start=1):
        typer.secho(f"{number:>2}. {result.title}", bold=True, nl=False)
        typer.echo(f"  {result.score:.3f}  id {result.id}")
        if explain:
            _explain(result)
        for line in for_terminal(result.snippet).splitlines():
            typer.echo(f"      {line}")
    if not answer.results:
        print_notes(["no results: use other words, or fewer filters"])
    print_notes(answer.limits)


def _explain(result: SearchResult) -> None:
    explain = result.metadata.explain
    typer.echo(f"    {', '.join(explain.hit_reason)}")
    scoring = explain.scoring
    typer.echo(f"    query: {scoring.query_class.replace('_', ' ')} ({scoring.reason})")
    for name, part in explain.channels.items():
        typer.echo(
            f"    {name}: rank {part.rank}, score {part.score:.3f} -> {part.value:.3f} x {part.weight:g} for the chunk"
        )
    for whose, found in (("chunk", scoring.chunk), ("file", scoring.file)):
        for name, each in found.items():
            typer.echo(f"    {name.replace('_', ' ')}: {each.value:.3f} x {each.weight:g} for the {whose}")
    for rule, factor in scoring.factors.items():
        typer.echo(f"    {rule.replace('_', ' ')}: x {factor:.3f}")
    if scoring.file_share:
        again = f", x {scoring.repeat:.3f} after better chunks of the file" if scoring.repeat < 1 else ""
        typer.echo(f"    the file decides {scoring.file_share:.0%}{again}")
    if scoring.fused_place:
        typer.echo(f"    place {scoring.fused_place} before the language model's order: x {scoring.reranked:.3f}")
    if scoring.late:
        typer.echo(f"    late interaction {scoring.late}")
    _explain_tokens(result)


def _explain_tokens(result: SearchResult) -> None:
    start = result.metadata.start_line
    for pair in result.metadata.explain.tokens:
        place = f"line {pair.line + 1}, column {pair.column + 1}" if pair.line >= start else "path or name"
        inside = f" in {pair.symbol}" if pair.symbol else ""
        typer.echo(f"    {pair.score:.3f}  {pair.query_token} ~ {pair.token}  ({place}{inside})")


def print_notes(notes: list[str]) -> None:
    """What an answer lacks, on stderr."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def for_terminal(text: str) -> str:
    """Indexed code without control characters: an escape sequence in it must not reach the terminal."""
    return "".join(
        character for character in text if character in "\n\t" or (character.isprintable() or character == " ")
    )
