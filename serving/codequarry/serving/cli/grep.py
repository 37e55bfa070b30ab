"""Command ``codequarry grep``: text search with the output of grep."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.grep import MATCHES_DEFAULT, CodeMatch, CodeSearchRequest
from codequarry.schemas.wire.search import to_wire
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import (
    ExcludeOption,
    IncludeOption,
    JsonOption,
    KindOption,
    LangOption,
    RefOption,
    RepoOption,
    RootOption,
    SettingsOption,
    SymbolOption,
    filters_of,
)
from codequarry.serving.cli.search import open_engine, print_notes
from codequarry.serving.cli.terminal import echo_json, for_terminal
from codequarry.serving.text.arguments import parse


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("grep")(grep)


def grep(
    pattern: Annotated[str, typer.Argument(help="What to find.")],
    mode: Annotated[str, typer.Option(help="exact, word, phrase (words in this order) or regex (RE2).")] = "exact",
    exact: Annotated[bool, typer.Option("-F", help="Short for --mode exact.")] = False,
    word: Annotated[bool, typer.Option("-w", help="Short for --mode word.")] = False,
    regex: Annotated[bool, typer.Option("-E", help="Short for --mode regex.")] = False,
    ignore_case: Annotated[bool, typer.Option("-i", help="Upper and lower case are the same.")] = False,
    context: Annotated[int, typer.Option("--context", "-C", help="Lines before and after, 0 to 5.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many matches, 1 to 200.")] = MATCHES_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    symbol: SymbolOption = None,
    kind: KindOption = None,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find every place where a text stands; prints path:line:column: text, and ends with 1 when there is none.

    Example: codequarry grep -E "raise \\w+Error\\(" --include "src/**"
    """
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref, symbols=symbol, kinds=kind)
    request = parse(
        CodeSearchRequest,
        {
            "pattern": pattern,
            "mode": _mode(mode, exact=exact, word=word, regex=regex),
            "case_sensitive": not ignore_case,
            "context_lines": context,
            "limit": limit,
            "filters": filters,
        },
    )
    with open_engine(load_settings(settings_file, bundle_root=root, look="up"), channels=("bm25",)) as engine:
        answer = engine.search_code(request)
    if as_json:
        echo_json(to_wire(answer))
    else:
        for number, (_, matches) in enumerate(groupby(answer.results, key=lambda one: (one.uri, one.start_line))):
            if number and context:
                typer.echo("--")
            _show(list(matches))
        at_least = "" if answer.total_is_exact else "at least "
        total = f"{at_least}{counted(answer.total, 'match', 'matches')} in {counted(answer.files, 'file')}"
        print_notes([total, *answer.limits])
    if not answer.total:
        raise typer.Exit(1)


def _mode(mode: str, **short: bool) -> str:
    given = [name for name, wanted in short.items() if wanted]
    if len(given) > 1 or (given and mode not in ("exact", given[0])):
        raise InvalidArgumentError("mode: more than one is given", suggestion="use one of -F, -w, -E and --mode")
    return given[0] if given else mode


def _show(matches: list[CodeMatch]) -> None:
    """Print one line of code with all its matches and their context."""
    first = matches[0]
    path = for_terminal(first.uri)
    for number, line in enumerate(first.before, start=first.start_line + 1 - len(first.before)):
        typer.echo(f"{path}-{number}- {for_terminal(line)}")
    # Matches far behind the first one in a long line get previews of their own.
    for _, same in groupby(matches, key=lambda one: one.preview):
        shown = list(same)
        typer.secho(path, fg="magenta", nl=False)
        typer.echo(f":{shown[0].start_line + 1}:{shown[0].start_column + 1}: {_highlighted(shown)}")
    for number, line in enumerate(first.after, start=first.end_line + 2):
        typer.echo(f"{path}-{number}- {for_terminal(line)}")


def _highlighted(matches: list[CodeMatch]) -> str:
    text, at, parts = matches[0].preview, 0, []
    for match in matches:
        start, end = match.highlight
        parts += [for_terminal(text[at:start]), _marked(for_terminal(text[start:end]))]
        at = end
    return "".join([*parts, for_terminal(text[at:])])


def _marked(text: str) -> str:
    return typer.style(text, fg="red", bold=True) if sys.stdout.isatty() else text
