"""Commands ``codequarry definition`` and ``codequarry references``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.search import to_wire
from codequarry.schemas.wire.symbols import (
    DEFINITIONS_DEFAULT,
    REFERENCES_DEFAULT,
    DefinitionRequest,
    DefinitionResult,
    ReferencesAnswer,
    ReferencesRequest,
)
from codequarry.serving.cli.finding.output import Output
from codequarry.serving.cli.finding.search import open_engine, print_notes
from codequarry.serving.cli.finding.shell_paths import ShellPaths, place_of
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
from codequarry.serving.cli.terminal import echo_json
from codequarry.serving.text.arguments import parse

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME|PLACE",
        help="A name, or the end of a qualified one: open, Index.open. Or a place where it stands: PATH:LINE or "
        "PATH:LINE:COLUMN, counted from 1, columns in bytes.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("definition")(definition)
    app.command("references")(references)


def definition(
    target: TargetArgument,
    kind: Annotated[str, typer.Option(help="Only this kind: class, function, method, constant, …")] = "",
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many results, 1 to 100.")] = DEFINITIONS_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find where a name is defined; the exit code is 1 when it is nowhere.

    Example: codequarry definition Index.open --kind method

    Example: codequarry definition src/index.py:120:9
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    shell = ShellPaths.of(settings.bundle.root)
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    request = parse(DefinitionRequest, {**_target(target, shell), "kind": kind, "limit": limit, "filters": filters})
    with open_engine(settings, channels=()) as engine:
        answer = engine.definitions(request)
    if as_json:
        echo_json(to_wire(answer))
    else:
        output = Output()
        for result in answer.results:
            _show(result, shell.show(result.uri, answer.bundle), output)
        hidden = answer.total - len(answer.results)
        notes = [f"{hidden:,} more; raise --limit"] if hidden > 0 else []
        print_notes([*notes, *answer.limits] if answer.results or answer.limits else ["no definitions"])
    if not answer.results:
        raise typer.Exit(1)


def references(
    target: TargetArgument,
    role: Annotated[str, typer.Option(help="Only this use: call, import, read, write, type or any.")] = "any",
    definitions: Annotated[bool, typer.Option("--definitions", help="List the definitions too, first.")] = False,
    precise: Annotated[bool, typer.Option("--precise", help="Leave out what is known by name alone.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many results, 1 to 500.")] = REFERENCES_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Find who calls, imports or otherwise uses a name; the exit code is 1 when nobody does.

    Example: codequarry references Index.open --role call --exclude tests
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    shell = ShellPaths.of(settings.bundle.root)
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    asked = {"role": role, "precision": "precise" if precise else "all", "include_definitions": definitions}
    request = parse(ReferencesRequest, {**_target(target, shell), **asked, "limit": limit, "filters": filters})
    with open_engine(settings, channels=()) as engine:
        answer = engine.references(request)
    if as_json:
        echo_json(to_wire(answer))
    else:
        _show_references(answer, shell)
    if not answer.results:
        raise typer.Exit(1)


def _show_references(answer: ReferencesAnswer, shell: ShellPaths) -> None:
    output = Output()
    for result in answer.results:
        mark = "?" if result.evidence == "by name" else " "
        where = f"{shell.show(result.uri, answer.bundle)}:{result.start_line + 1}:{result.start_column + 1}"
        output.line((f"{mark} ", "yellow"), (where, "magenta"), (f"  {', '.join(result.roles)}  ", "dim"),
                    (result.preview, ""))  # fmt: skip
    if any(result.evidence == "by name" for result in answer.results):
        print_notes(["'?' marks places that are known by name alone"])
    if answer.definitions_total > 1:
        print_notes([f"{answer.definitions_total} definitions are meant; give a qualified name to choose"])
    print_notes(answer.limits if answer.results or answer.limits else ["no references"])


def _target(given: str, shell: ShellPaths) -> dict[str, Any]:
    """Return the name or the place in the form of requests."""
    return place_of(given, shell) or {"symbol": given}


def _show(result: DefinitionResult, path: str, output: Output) -> None:
    place = f"{path}:{result.start_line + 1}:{result.start_column + 1}"
    exact = "" if result.precise == "precise" else "  by name"
    output.line((place, "magenta"), (f"  {result.kind} {result.qualified_name}", "bold"), (exact, "dim"))
    for text in (result.signature, *result.documentation.splitlines()[:1]):
        if text:
            output.line((f"    {text}", ""))
