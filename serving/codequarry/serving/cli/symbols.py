"""Commands ``codequarry definition`` and ``codequarry references``."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.search import to_wire
from codequarry.schemas.wire.symbols import (
    DEFINITIONS_DEFAULT,
    REFERENCES_DEFAULT,
    DefinitionRequest,
    DefinitionResult,
    ReferencesRequest,
)
from codequarry.serving.cli.options import (
    ExcludeOption,
    IncludeOption,
    JsonOption,
    LangOption,
    RefOption,
    RepoOption,
    RootOption,
    SettingsOption,
    filters_of,
)
from codequarry.serving.cli.search import open_engine, print_notes
from codequarry.serving.cli.terminal import echo_json, for_terminal
from codequarry.serving.text.arguments import parse

_PLACE = re.compile(r"(.+?):(\d+)(?::(\d+))?")

NameArgument = Annotated[str, typer.Argument(help="A name, or the end of a qualified name: open, Index.open.")]
AtOption = Annotated[
    str,
    typer.Option(help="A place instead of a name: PATH:LINE or PATH:LINE:COLUMN, counted from 1, columns in bytes."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("definition")(definition)
    app.command("references")(references)


def definition(
    name: NameArgument = "",
    at: AtOption = "",
    kind: Annotated[str, typer.Option(help="Only this kind: class, function, method, constant, …")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many results, 1 to 100.")] = DEFINITIONS_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find where a name is defined.

    Example: codequarry definition Index.open --kind method

    Example: codequarry definition --at src/index.py:120:9
    """
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    request = parse(DefinitionRequest, {**_target(name, at), "kind": kind, "limit": limit, "filters": filters})
    with open_engine(load_settings(settings_file, bundle_root=root, look="up"), channels=()) as engine:
        answer = engine.definitions(request)
    if as_json:
        echo_json(to_wire(answer))
        return
    for number, result in enumerate(answer.results, start=1):
        _show(number, result)
    notes = [f"{answer.total - len(answer.results)} more; raise --limit"] if answer.total > len(answer.results) else []
    print_notes([*notes, *answer.limits] if answer.results or answer.limits else ["no definitions"])


def references(
    name: NameArgument = "",
    at: AtOption = "",
    role: Annotated[str, typer.Option(help="Only this use: call, import, read, write, type or any.")] = "any",
    definitions: Annotated[bool, typer.Option("--definitions", help="List the definitions too, first.")] = False,
    precise: Annotated[bool, typer.Option("--precise", help="Leave out what is known by name alone.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many results, 1 to 500.")] = REFERENCES_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find who calls, imports or otherwise uses a name.

    Example: codequarry references Index.open --role call --exclude tests
    """
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    asked = {"role": role, "precision": "precise" if precise else "all", "include_definitions": definitions}
    request = parse(ReferencesRequest, {**_target(name, at), **asked, "limit": limit, "filters": filters})
    with open_engine(load_settings(settings_file, bundle_root=root, look="up"), channels=()) as engine:
        answer = engine.references(request)
    if as_json:
        echo_json(to_wire(answer))
        return
    for result in answer.results:
        mark = " " if result.precise == "precise" else "?"
        where = f"{for_terminal(result.uri)}:{result.start_line + 1}:{result.start_column + 1}"
        typer.secho(f"{mark} {where}", bold=True, nl=False)
        typer.echo(f"  {', '.join(result.roles)}  {for_terminal(result.preview)}")
    if any(result.precise == "heuristic" for result in answer.results):
        print_notes(["'?' marks places that are known by name alone"])
    if answer.definitions_total > 1:
        print_notes([f"{answer.definitions_total} definitions are meant; give a qualified name to choose"])
    print_notes(answer.limits if answer.results or answer.limits else ["no references"])


def _target(name: str, at: str) -> dict[str, Any]:
    """Return the name or the place in the form of requests: 0-based.

    >>> _target("", "src/index.py:120:9")
    {'uri': 'src/index.py', 'line': 119, 'column': 8}
    """
    if not at:
        return {"symbol": name}
    place = _PLACE.fullmatch(at)
    if name or place is None or len(at) > 4200 or "0" in place.groups():
        raise InvalidArgumentError(
            "--at: " + ("given beside a name" if name else "no place of the form PATH:LINE or PATH:LINE:COLUMN"),
            suggestion="give a name, or --at src/index.py:120:9",
        )
    path, line, column = place.groups()
    return {"uri": path, "line": int(line[:10]) - 1, "column": int((column or "0")[:10]) - 1}


def _show(number: int, result: DefinitionResult) -> None:
    where = f"{for_terminal(result.uri)}:{result.start_line + 1}:{result.start_column + 1}"
    typer.secho(f"{number:>2}. {where}", bold=True, nl=False)
    typer.echo(f"  {result.kind} {for_terminal(result.qualified_name)}  {result.precise}  id {result.chunk_id}")
    if result.signature:
        typer.echo(f"      {for_terminal(result.signature)}")
    if result.documentation:
        typer.echo(f"      {for_terminal(result.documentation).splitlines()[0]}")
