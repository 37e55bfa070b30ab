"""``codequarry gates`` and ``codequarry verdict``: the gates of a version, asked again or as they judged it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import print_table
from codequarry.serving.files.integrity import read_manifest, verify

if TYPE_CHECKING:
    from codequarry.pipelines.gates.great_expectations import SuiteResult

gates_app = typer.Typer(
    help="The expectation suites: what every row of every table has to be, asked by Great Expectations.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(gates_app, name="gates")
    app.command("verdict")(verdict)


@gates_app.command("check")
def check(
    version: Annotated[str, typer.Argument(help="A version of `codequarry versions`, or current, or previous.")] = (
        "current"
    ),
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Run the suites over a published version, and keep their result documents in the work folder.

    `codequarry index` and `codequarry doctor` ask the same without Great Expectations. Exit code 1 when one fails.

    Examples:

      codequarry gates check

      codequarry gates check previous --json
    """
    settings = load_settings(settings_file, bundle_root=root)
    name, results = _check_version(settings, version)
    if as_json:
        typer.echo(json.dumps({"version": name, "gates": _rows(results)}, ensure_ascii=False, indent=1))
    else:
        typer.echo(f"{name}: {counted(sum(len(result.outcomes) for result in results), 'expectation')}")
        head = ("table", "rows that must not be", "found", "allowed", "examples")
        found = [row for row in _rows(results) if not row["passed"]]
        if found:
            print_table(head, (_cells(row) for row in found), whole=len(head))
        typer.echo(f"{len(found)} failed" if found else "all hold")
    if not all(result.passed for result in results):
        raise typer.Exit(1)


@gates_app.command("docs")
def docs(
    out: Annotated[
        Path | None, typer.Option(help="Folder of the pages.", show_default="gates/site, work folder")
    ] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Build the Data Docs of the last results: those of `codequarry gates check`, or of the last Dagster run.

    The pages take their scripts and styles from public servers when a browser opens them.

    Examples:

      codequarry gates docs

      codequarry gates docs --out public/gates
    """
    from codequarry.pipelines.gates.great_expectations import build_docs, documents_folder

    kept = documents_folder(load_settings(settings_file).paths.work)
    typer.echo(build_docs(kept, out if out is not None else kept / "site"))


def verdict(
    version: Annotated[
        str, typer.Argument(help="A version, published or stopped.", show_default="the last one that was judged")
    ] = "",
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Print what the retrieval gate found before a version was published, or was not.

    Recall of the dense indexes against exact search, and how answers, search and opening
    compare with the version that was current. The page with its plots lies in verdicts/ of the bundle root.

    Example: codequarry verdict
    """
    try:
        from codequarry.pipelines.gates.answers.verdict import PAGE, read_verdict
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry verdict", "build", missing=error.name) from None
    bundle_root = BundleRoot(load_settings(settings_file, bundle_root=root).bundle.root)
    typer.echo(read_verdict(bundle_root, version, "verdict.json" if as_json else PAGE).rstrip("\n"))


def _check_version(settings: Settings, version: str) -> tuple[str, tuple[SuiteResult, ...]]:
    from codequarry.pipelines.gates.great_expectations import documents_folder, keep, run_suites
    from codequarry.pipelines.measure.asking import version_called
    from codequarry.serving.version.file_checks import open_tables, suites_of

    root = BundleRoot(settings.bundle.root)
    paths = root.published(version_called(root, version))
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=False)
    with closing(open_tables(paths, manifest)) as connection:
        results = run_suites(connection, suites_of(manifest))
    keep(results, documents_folder(settings.paths.work))
    return manifest.version, results


def _rows(results: tuple[SuiteResult, ...]) -> list[dict[str, object]]:
    return [
        {
            "table": result.suite.table,
            "name": each.expectation.name,
            "passed": each.passed,
            "rows": each.rows,
            "found": each.count_text,
            "allowed": each.expectation.allowed,
            "examples": list(each.examples),
        }
        for result in results
        for each in result.outcomes
    ]


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    examples = row["examples"]
    assert isinstance(examples, list)
    return (*(str(row[key]) for key in ("table", "name", "found", "allowed")), "; ".join(map(str, examples)))
