"""Command ``codequarry grep``: text search with the output of grep."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.grep import MATCHES_DEFAULT, CodeMatch, CodeSearchAnswer, CodeSearchRequest
from codequarry.schemas.wire.search import to_wire
from codequarry.schemas.wording import counted
from codequarry.serving.cli.finding.output import Output
from codequarry.serving.cli.finding.search import open_engine, print_notes
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
)
from codequarry.serving.cli.terminal import echo_json
from codequarry.serving.text.arguments import parse


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("grep")(grep)


def grep(
    pattern: Annotated[str, typer.Argument(help="What to find.")],
    paths: PathsArgument = None,
    mode: Annotated[str, typer.Option(help="exact, word, phrase (words in this order) or regex (RE2).")] = "exact",
    exact: Annotated[bool, typer.Option("-F", help="Short for --mode exact.")] = False,
    word: Annotated[bool, typer.Option("-w", help="Short for --mode word.")] = False,
    regex: Annotated[bool, typer.Option("-E", help="Short for --mode regex.")] = False,
    ignore_case: Annotated[bool, typer.Option("-i", help="Upper and lower case are the same.")] = False,
    names: Annotated[bool, typer.Option("-l", help="Print the names of files alone.")] = False,
    counts: Annotated[bool, typer.Option("-c", help="Print the number of matches of each file.")] = False,
    context: Annotated[int, typer.Option("--context", "-C", help="Lines before and after, 0 to 5.")] = 0,
    after: Annotated[int | None, typer.Option("-A", help="Lines after, 0 to 5.", show_default="-C")] = None,
    before: Annotated[int | None, typer.Option("-B", help="Lines before, 0 to 5.", show_default="-C")] = None,
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many matches, 1 to 200.")] = MATCHES_DEFAULT,
    habits: Annotated[
        bool, typer.Option("-n", "-r", "-R", "-s", hidden=True, help="As grep has them: so it is.")
    ] = False,
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

    Example: codequarry grep -E "raise \\w+Error\\(" src -C 2
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    shell = ShellPaths.of(settings.bundle.root)
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref, symbols=symbol, kinds=kind)
    lines_before, lines_after = (context if given is None else given for given in (before, after))
    request = parse(
        CodeSearchRequest,
        {
            "pattern": pattern,
            "mode": _mode(mode, exact=exact, word=word, regex=regex),
            "case_sensitive": not ignore_case,
            "context_lines": max(lines_before, lines_after),
            "limit": limit,
            "filters": shell.narrow(filters, paths or []),
        },
    )
    with open_engine(settings, channels=("bm25",)) as engine:
        answer = engine.search_code(request)
    if as_json:
        echo_json(to_wire(answer))
    else:
        notes = answer.limits
        if names or counts:
            for uri, count in answer.counts.items():
                typer.echo(f"{shell.show(uri, answer.bundle)}{'' if names else f':{count}'}")
            # What limits the matches that are shown limits no count.
            notes = [] if answer.total and answer.total_is_exact else notes
        else:
            _show_matches(answer, shell, lines_before, lines_after)
        at_least = "" if answer.total_is_exact else "at least "
        total = f"{at_least}{counted(answer.total, 'match', 'matches')} in {counted(answer.files, 'file')}"
        print_notes([total, *notes])
    if not answer.total:
        raise typer.Exit(1)


def _mode(mode: str, **short: bool) -> str:
    given = [name for name, wanted in short.items() if wanted]
    if len(given) > 1 or (given and mode not in ("exact", given[0])):
        raise InvalidArgumentError("mode: more than one is given", suggestion="use one of -F, -w, -E and --mode")
    return given[0] if given else mode


def _show_matches(answer: CodeSearchAnswer, shell: ShellPaths, lines_before: int, lines_after: int) -> None:
    """Print a line of code for each line with matches, and the lines around it."""
    output = Output()
    for number, (_, same) in enumerate(groupby(answer.results, key=lambda one: (one.uri, one.start_line))):
        matches = list(same)
        first = matches[0]
        path = shell.show(first.uri, answer.bundle)
        if number and (lines_before or lines_after):
            output.line(("--", "dim"))
        before = first.before[max(0, len(first.before) - lines_before) :]
        for at, line in enumerate(before, start=first.start_line + 1 - len(before)):
            output.line((f"{path}-{at}- ", "dim"), (line, ""))
        # Matches far behind the first one in a long line get previews of their own.
        for _, shown in groupby(matches, key=lambda one: one.preview):
            group = list(shown)
            where = f":{group[0].start_line + 1}:{group[0].start_column + 1}: "
            output.line((path, "magenta"), (where, "dim"), *_marked(group))
        for at, line in enumerate(first.after[:lines_after], start=first.end_line + 2):
            output.line((f"{path}-{at}- ", "dim"), (line, ""))


def _marked(matches: list[CodeMatch]) -> list[tuple[str, str]]:
    """Return the preview of a line in parts, its matches set off."""
    text, at, parts = matches[0].preview, 0, list[tuple[str, str]]()
    for match in matches:
        start, end = match.highlight
        parts += [(text[at:start], ""), (text[start:end], "bold red")]
        at = end
    return [*parts, (text[at:], "")]
