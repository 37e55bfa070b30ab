"""Command ``codequarry relations``."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.relations import MAX_TARGET_CHARS, RELATIONS_DEFAULT, RelationsRequest
from codequarry.schemas.wire.search import to_wire
from codequarry.serving.cli.finding.output import Output
from codequarry.serving.cli.finding.search import open_engine, print_notes
from codequarry.serving.cli.finding.shell_paths import ShellPaths
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

_STEP = 2
"""Columns by which a further step is indented."""


class Relation(StrEnum):
    """Kinds of relations as arguments."""

    CALLERS = "callers"
    CALLEES = "callees"
    IMPLEMENTATIONS = "implementations"
    IMPORTS = "imports"
    IMPACT = "impact"
    AFFECTED_TESTS = "affected-tests"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("relations")(relations)


def relations(
    kind: Annotated[
        Relation,
        typer.Argument(
            help="callers, callees, implementations (subtypes, overrides), imports, impact (what a change may break), "
            "or affected-tests."
        ),
    ],
    target: Annotated[
        str, typer.Argument(metavar="NAME|PLACE|PATH|-", help="A name, PATH:LINE, a path, or - for a diff from stdin.")
    ],
    depth: Annotated[
        int, typer.Option(help="Steps to follow, 1 to 5.", show_default="1, for impact 3, for affected-tests 2")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many results, 1 to 200.")] = RELATIONS_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Follow relations of code: who calls it, what it calls, what a change reaches, which tests that breaks.

    Example: codequarry relations callers Index.open --depth 2

    Example: git diff | codequarry relations affected-tests -
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    shell = ShellPaths.of(settings.bundle.root)
    asked = {"kind": kind.value.replace("-", "_"), "target": _read(target, shell), "depth": depth, "limit": limit}
    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    from codequarry.serving.tools.relations.relations import relations as tool

    request = parse(RelationsRequest, {**asked, "filters": filters})
    with open_engine(settings, channels=("bm25",)) as engine:
        answer = engine.answer("relations", tool, request)
    if as_json:
        echo_json(to_wire(answer))
    else:
        output = Output()
        for one in answer.results:
            said = ", ".join([one.relation, one.evidence, *(["again"] if one.again else [])])
            place = f"{shell.show(one.uri, answer.bundle)}:{one.start_line + 1}"
            step = 0 if kind is Relation.AFFECTED_TESTS else one.depth - 1
            output.line(
                (f"{' ' * _STEP * step}{place}", "magenta"), (f"  {one.kind} {one.name}".rstrip(), "bold"),
                (f"  {one.reason}".rstrip(), ""), (f"  [{said}]", "dim"),
            )  # fmt: skip
        print_notes(answer.limits if answer.results or answer.limits else ["no such relation"])
    if not answer.results:
        raise typer.Exit(1)


def _read(target: str, shell: ShellPaths) -> str:
    """Return the target, or the diff on standard input."""
    if target != "-":
        return shell.resolve(target)
    diff = sys.stdin.read(MAX_TARGET_CHARS + 1)
    if not diff.strip():
        raise InvalidArgumentError(
            "standard input holds no diff", suggestion="git diff | codequarry relations impact -"
        )
    return diff
