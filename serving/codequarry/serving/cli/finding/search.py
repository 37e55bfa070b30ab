"""Commands ``codequarry search`` and ``codequarry fetch``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import install_hint
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wire.search import (
    MAX_QUERY_CHARS,
    MAX_TOKENS_DEFAULT,
    TOP_K_DEFAULT,
    WITH_CODE,
    Explain,
    FetchRequest,
    Match,
    Scoring,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    to_wire,
)
from codequarry.schemas.wording import counted
from codequarry.serving.cli.command_words import for_command_line
from codequarry.serving.cli.finding.output import Output, words_of
from codequarry.serving.cli.finding.shell_paths import ShellPaths
from codequarry.serving.cli.options import (
    ExcludeOption,
    IncludeOption,
    JsonOption,
    KindOption,
    LangOption,
    PathsArgument,
    RefOption,
    RepoOption,
    RootOption,
    SettingsOption,
    SymbolOption,
    filters_of,
    lent_to,
)
from codequarry.serving.cli.terminal import echo_json, for_terminal, say
from codequarry.serving.text.arguments import parse

if TYPE_CHECKING:
    from codequarry.serving.engine.engine import Engine


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("search")(search)
    app.command("fetch")(fetch)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A question, an identifier, an error message, an issue as it is.")],
    paths: PathsArgument = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-m",
            help="How many results, 1 to 50.",
            show_default=f"{TOP_K_DEFAULT}; fewer for an exact name or a weak match",
        ),
    ] = None,
    channel: Annotated[
        str,
        typer.Option(
            help="hybrid, or one index: faiss (meaning), warp (tokens), splade (weighed words), bm25 (words), symbol "
            "(names)."
        ),
    ] = "hybrid",
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    symbol: SymbolOption = None,
    kind: KindOption = None,
    rerank_model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="Let this language model order the first results, at [serving] reranker_endpoint.",
            show_default="reranker_model of the settings, if reranker_always",
        ),
    ] = "",
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score was made.")] = False,
    nprobe: Annotated[
        int,
        typer.Option(min=0, help="Lists of an IVF index to read, within its tuning; 0 as [serving] nprobe says."),
    ] = 0,
    ef_search: Annotated[
        int,
        typer.Option(min=0, help="Width of the search in an HNSW index; 0 as [serving] ef_search says."),
    ] = 0,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find code by meaning and by words; the exit code is 1 when nothing is found.

    Example: codequarry search "where are expired sessions removed" src --lang python --exclude "**/tests/**"
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    shell = ShellPaths.of(settings.bundle.root)
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref, symbols=symbol, kinds=kind)
    filters = shell.narrow(filters, paths or [])
    # With explanations, so with code and exact scores of all results: people read on, and programs pay for no tokens.
    asked = query[:MAX_QUERY_CHARS]  # an issue says at its beginning what it is about
    arguments: dict[str, object] = {"query": asked, "channel": channel, "filters": filters, "explain": True}
    if limit is not None:
        arguments["top_k"] = limit
    request = parse(SearchRequest, arguments)
    effort = {name: value for name, value in (("nprobe", nprobe), ("ef_search", ef_search)) if value}
    if rerank_model:
        settings = _reranking(settings, rerank_model)
    serving = settings.serving.model_copy(update=effort)
    with open_engine(settings.model_copy(update={"serving": serving})) as engine:
        answer = engine.search(request)
        _require_channel(engine, request.channel)
    if len(asked) < len(query):
        print_notes([f"the first {len(asked):,} of {len(query):,} characters are searched for"])
    if as_json:
        echo_json(to_wire(answer))
    else:
        places = _show(answer, shell, explain=explain)
        if sys.stdout.isatty() and (remember := lent_to(context).remember_results) is not None:
            remember(places)
    if not answer.results:
        raise typer.Exit(1)


def _require_channel(engine: Engine, name: str) -> None:
    """Raise UnavailableError when an index that was requested by its name is missing or cannot answer.

    A search of the service answers without it and says so in ``limits``; here a user named it and waits. Call this
    after the search: an encoder opens on a thread of its own, and only a search waits for what comes of it.
    """
    if name == "hybrid":
        return
    version, served = engine.bundle.manifest.version, ", ".join(sorted(engine.bundle.channels))
    if (problem := engine.bundle.problems().get(name)) is not None:
        raise UnavailableError(f"--channel {name}: the index of version {version} is off: {problem}")
    if name not in engine.bundle.channels:
        raise UnavailableError(
            f"--channel {name}: version {version} has no such index; it has {served}",
            suggestion=BUILD_HINTS[name],
        )


def _reranking(settings: Settings, model: str) -> Settings:
    """Return settings with a language model that is always asked.

    Args:
        settings: Settings of the folder.
        model: Name of the model.

    Returns:
        The changed settings.

    Raises:
        InvalidArgumentError: The settings name no server.
    """
    if not settings.serving.reranker_endpoint:
        raise InvalidArgumentError(
            "--rerank-model: the settings name no server that runs it",
            suggestion="set [serving] reranker_endpoint to the address of an OpenAI-compatible server",
        )
    changed = {"reranker_model": model, "reranker_always": True}
    return settings.model_copy(update={"serving": settings.serving.model_copy(update=changed)})


def fetch(
    ids: Annotated[list[str], typer.Argument(help="Ids from search, paths, or ranges like src/x.py:10-20.")],
    max_tokens: Annotated[int, typer.Option(help="Budget of the whole answer, 256 to 16000.")] = MAX_TOKENS_DEFAULT,
    resolve: Annotated[str, typer.Option(help="full, summary or metadata_only.")] = "full",
    ref: Annotated[str, typer.Option(help="Another indexed branch; or fail unless this commit is indexed.")] = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Print code by ids, paths and ranges of lines; with line numbers on a terminal, as it is into a pipe.

    Example: codequarry fetch src/store.py:10-60 README.md --max-tokens 2000
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    shell = ShellPaths.of(settings.bundle.root)
    references = [shell.resolve(each) for each in ids]
    request = parse(FetchRequest, {"objectIds": references, "max_tokens": max_tokens, "resolve": resolve, "ref": ref})
    with open_engine(settings, channels=()) as engine:
        answer = engine.fetch(request)
    failed = [one for one in answer.objects if one.error is not None]
    if as_json:
        echo_json(to_wire(answer))
    else:
        output = Output()
        for number, one in enumerate(answer.objects):
            if one.error is None and one.metadata is not None:
                if number:
                    output.line()
                found = one.metadata
                path, name = shell.show(found.uri, answer.bundle), f"  {found.kind} {found.qualified_name}".rstrip()
                output.line((f"{path}:{found.start_line + 1}", "magenta"), (name, "bold"))
                if output.is_terminal:
                    output.code(one.content.removesuffix("\n").split("\n"), found.start_line + 1, found.lang)
                else:
                    typer.echo(for_terminal(one.content))
        print_notes([*(one.error.message for one in failed if one.error), *answer.limits])
    if failed:
        raise typer.Exit(1)


@contextmanager
def open_engine(settings: Settings, *, channels: Iterable[str] | None = None) -> Iterator[Engine]:
    """Open the engine over the current version for the block.

    Args:
        settings: Settings of the folder.
        channels: Channels to map; None for all that are served.

    Yields:
        The engine.
    """
    from codequarry.serving.engine.engine import Engine
    from codequarry.serving.engine.local_files import LocalFiles
    from codequarry.serving.engine.served_refs import ServedRefs
    from codequarry.serving.engine.working_tree import WorkingTree
    from codequarry.serving.version.open import SERVED_CHANNELS, Bundle

    wanted = SERVED_CHANNELS if channels is None else channels
    bundle = Bundle.open_current(settings.bundle.root, settings.serving, channels=wanted)
    engine = Engine(bundle, settings.serving)
    engine.local_files = LocalFiles.of(settings.bundle.root)
    tree = WorkingTree(settings.bundle.root, Path.cwd())
    engine.refs = ServedRefs(settings.bundle.root, settings.serving, channels=wanted, tree=tree)
    try:
        yield engine
    finally:
        engine.close()


def _show(answer: SearchAnswer, shell: ShellPaths, *, explain: bool) -> list[str]:
    """Print the first results with code, or all where each is explained, and the rest as one line each.

    Args:
        answer: The answer.
        shell: Translation of paths.
        explain: Show how each score was made.

    Returns:
        ``PATH:LINE`` of each result, absolute.
    """
    from codequarry.serving.render.lines import on_disk

    if explain and answer.match is not None:
        _explain_match(answer.match)
    output, marked, places = Output(), words_of(answer.queryEcho), list[str]()
    for number, result in enumerate(answer.results, start=1):
        found, lines = result.metadata, result.code.split("\n")
        with_code = bool(result.code) and (explain or number <= WITH_CODE)
        line = (result.code_line if with_code else found.start_line) + 1
        place = f"{shell.show(found.uri, answer.bundle)}:{line}"
        places.append(os.path.abspath(place))
        output.line(
            (place, "magenta"), (f"  {result.heading}".rstrip(), "bold"),
            (f"  [{number}]", "dim"), (f"  {result.score:.3f}" if explain else "", "dim"),
            (f"  {on_disk(found.on_disk)}".rstrip(), "yellow"),
        )  # fmt: skip
        if explain:
            _explain(result)
        if with_code:
            output.code(lines, line, found.lang, marked=marked)
            if number < len(answer.results):
                output.line()
    if not answer.results:
        print_notes(["no results: use other words, or fewer filters"])
    print_notes(answer.limits)
    return places


def _explain_match(match: Match) -> None:
    near = "" if match.similarity is None else f", nearest vector {match.similarity:.3f}"
    typer.echo(
        f"confidence {match.confidence:.2f}: {match.coverage:.0%} of {counted(match.terms, 'term')} in one chunk{near}"
    )


def _explain(result: SearchResult) -> None:
    explain = result.metadata.explain
    typer.echo(for_terminal(f"    {', '.join(explain.hit_reason)}"))
    if explain.scoring is not None:
        _explain_score(explain, explain.scoring)
    for what, counts in (("holds", explain.kinds), ("leaves", explain.leaves)):
        if counts:
            typer.echo(f"    {what}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
    if explain.said:
        typer.echo(f"    its file: {for_terminal(explain.said)}")
    _explain_tokens(result)
    _explain_terms(result)


def _explain_score(explain: Explain, scoring: Scoring) -> None:
    typer.echo(f"    query: {scoring.query_class.replace('_', ' ')} ({scoring.reason})")
    for name, part in explain.channels.items():
        typer.echo(
            f"    {name}: rank {part.rank}, score {part.score:.3f} -> {part.value:.3f} x {part.weight:g} for the chunk"
        )
    for whose, found in (("chunk", scoring.chunk), ("file", scoring.file)):
        for name, each in found.items():
            typer.echo(f"    {name.replace('_', ' ')}: {each.value:.3f} x {each.weight:g} for the {whose}")
    for rule, factor in scoring.factors.items():
        typer.echo(f"    {_rule(rule)}: x {factor:.3f}")
    whom = " for the chunk" if scoring.form_on_file < 1 else ""
    for rule, factor in scoring.form.items():
        typer.echo(f"    {_rule(rule)}: x {factor:.3f}{whom}")
    if scoring.file_share:
        again = f", x {scoring.repeat:.3f} after better chunks of the file" if scoring.repeat < 1 else ""
        typer.echo(f"    the file decides {scoring.file_share:.0%}{again}")
    if scoring.fused_place:
        typer.echo(f"    place {scoring.fused_place} before the language model's order: x {scoring.reranked:.3f}")
    if scoring.late:
        typer.echo(f"    late interaction {scoring.late}")


def _rule(rule: str) -> str:
    """Return a factor's rule in readable form.

    >>> _rule("fan_in:4"), _rule("path_class:test"), _rule("header_beside"), _rule("lines:1"), _rule("comments:80")
    ('imported by 4 files', 'test file', 'header beside', '1 line long', '80 % comments')
    """
    name, _, value = rule.partition(":")
    said = {"path_class": f"{value} file", "kind": value}
    if value.isdigit():
        lines = counted(int(value), "line")
        said |= {"fan_in": f"imported by {counted(int(value), 'file')}", "code_lines": f"{lines} of code"}
        said |= {"lines": f"{lines} long", "comments": f"{value} % comments"}
    return said.get(name, name.replace("_", " "))


def _explain_tokens(result: SearchResult) -> None:
    start = result.metadata.start_line
    for pair in result.metadata.explain.tokens:
        place = f"line {pair.line + 1}, column {pair.column + 1}" if pair.line >= start else "path or name"
        inside = f" in {pair.symbol}" if pair.symbol else ""
        typer.echo(for_terminal(f"    {pair.score:.3f}  {pair.query_token} ~ {pair.token}  ({place}{inside})"))


_ADDED = {"none": "", "query": ", added to the query", "code": ", added to the code", "both": ", added to both"}


def _explain_terms(result: SearchResult) -> None:
    for term in result.metadata.explain.terms:
        weights = f"{term.query_weight:.3f} x {term.impact:.3f}{_ADDED[term.expansion]}"
        typer.echo(f"    {term.score:.3f}  {for_terminal(term.term)}  ({weights})")


def print_notes(notes: list[str]) -> None:
    """Print the limits of an answer on stderr."""
    for note in notes:
        say(f"note: {for_command_line(note)}", err=True)


_REBUILD = "then run: codequarry index"


BUILD_HINTS = {
    "bm25": "run: codequarry index --force",
    "symbol": "run: codequarry index --force",
    "faiss": "run: codequarry index --force",
    "faiss2": f'set [indexes] tier = "standard" ({install_hint("models", weights=True)}), {_REBUILD}',
    "warp": f'set [warp] enabled = true, or [indexes] tier = "full" ({install_hint("warp", weights=True)}), {_REBUILD}',
    "splade": f"set [splade] enabled = true and [splade] model ({install_hint('models')}), {_REBUILD}",
}
"""Instructions for making a version with this index, by channel."""
