"""Commands ``codequarry outline``, ``codequarry files``, ``codequarry overview`` and ``codequarry explore``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wire.explore import ExploreRequest
from codequarry.schemas.wire.list_files import FILES_DEFAULT, TREE_DEPTH_DEFAULT, ListFilesRequest
from codequarry.schemas.wire.outline import OUTLINE_DEFAULT, OutlineRequest
from codequarry.schemas.wire.overview import OverviewRequest
from codequarry.schemas.wire.search import MAX_TOKENS_DEFAULT, to_wire
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
from codequarry.serving.cli.terminal import echo_json, for_terminal
from codequarry.serving.text.arguments import parse


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("outline")(outline)
    app.command("files")(files)
    app.command("overview")(overview)
    app.command("explore")(explore)


def outline(
    path: Annotated[str, typer.Argument(help="A file or a folder.")],
    depth: Annotated[int, typer.Option(help="Levels of nesting; by default 2 for a file, 1 for a folder.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many definitions, 1 to 1000.")] = OUTLINE_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """List the definitions of a file, or of the files of a folder; the exit code is 1 when there are none.

    Example: codequarry outline src/store.py
    """
    from codequarry.serving.render.browse import outline_text
    from codequarry.serving.tools.browse.outline import outline as tool

    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    settings = load_settings(settings_file, bundle_root=root, look="up")
    meant = ShellPaths.of(settings.bundle.root).resolve(path)
    request = parse(OutlineRequest, {"path": meant, "depth": depth, "limit": limit, "filters": filters})
    with open_engine(settings, channels=()) as engine:
        answer = engine.answer("outline", tool, request)
    _print(answer, outline_text, as_json, found=answer.total > 0)


def files(
    pattern: Annotated[str, typer.Argument(help="A folder, or a glob like '**/*.sql'.")] = "",
    depth: Annotated[int, typer.Option(help="Levels of folders that are opened, 1 to 16.")] = TREE_DEPTH_DEFAULT,
    path_class: Annotated[str, typer.Option("--class", help="Only source, test, docs, example, …")] = "any",
    lang: LangOption = None,
    limit: Annotated[int, typer.Option("--limit", "-m", help="How many files and folders.")] = FILES_DEFAULT,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """List indexed files: a tree of folders, or the files that a glob matches; the exit code is 1 when there are none.

    Example: codequarry files src --depth 3 --class source
    """
    from codequarry.serving.render.browse import files_text
    from codequarry.serving.tools.browse.list_files import list_files

    settings = load_settings(settings_file, bundle_root=root, look="up")
    meant = ShellPaths.of(settings.bundle.root).resolve(pattern)
    arguments = {"pattern": meant, "depth": depth, "class": path_class, "lang": lang or [], "limit": limit}
    request = parse(ListFilesRequest, arguments)
    with open_engine(settings, channels=()) as engine:
        answer = engine.answer("list_files", list_files, request)
    _print(answer, files_text, as_json, found=bool(answer.files or answer.folders))


def overview(
    repo: RepoOption = None,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Tell what is indexed: languages, most imported folders, entry points, documents.

    Example: codequarry overview --repo app
    """
    from codequarry.serving.render.browse import overview_text
    from codequarry.serving.tools.browse.overview import overview as tool

    request = parse(OverviewRequest, {"repos": repo or []})
    with open_engine(load_settings(settings_file, bundle_root=root, look="up"), channels=()) as engine:
        _print(engine.answer("overview", tool, request), overview_text, as_json)


def explore(
    query: Annotated[str, typer.Argument(help="The task or the question, in words.")],
    max_tokens: Annotated[
        int, typer.Option(help="Budget of the text in tokens of four characters, 256 to 16000.")
    ] = MAX_TOKENS_DEFAULT,
    lang: LangOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    repo: RepoOption = None,
    ref: RefOption = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Gather the code for a task: matches, then callers, callees, types and tests as one line each.

    The exit code is 1 when nothing matches.

    Example: codequarry explore "remove expired sessions when the store is opened"
    """
    from codequarry.serving.render.explore import explore_text
    from codequarry.serving.tools.browse.explore import explore as tool

    filters = filters_of(lang=lang, include=include, exclude=exclude, repos=repo, ref=ref)
    request = parse(ExploreRequest, {"query": query, "max_tokens": max_tokens, "filters": filters})
    with open_engine(load_settings(settings_file, bundle_root=root, look="up")) as engine:
        answer = engine.answer("explore", tool, request)
    _print(answer, explore_text, as_json, found=bool(answer.places))


def _print(answer: Any, text: Callable[[Any], str], as_json: bool, *, found: bool = True) -> None:
    """Print an answer: its text, and its limits on stderr.

    Args:
        answer: Answer of a tool.
        text: Makes its text.
        as_json: Print JSON instead.
        found: The answer has something.

    Raises:
        typer.Exit: Nothing was found.
    """
    if as_json:
        echo_json(to_wire(answer))
    else:
        bare: BaseModel = answer.model_copy(update={"limits": []})
        typer.echo(for_terminal(text(bare)))
        print_notes(answer.limits)
    if not found:
        raise typer.Exit(1)
