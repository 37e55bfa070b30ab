"""``codequarry gates`` and ``codequarry verdict``: the gates of a version, asked again or as they judged it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import print_table
from codequarry.serving.files.integrity import read_manifest, verify

if TYPE_CHECKING:
    from codequarry.pipelines.gates.great_expectations import TableStatistics
    from codequarry.pipelines.gates.native_suites import NativeSuite
    from codequarry.schemas.bundle.layout import BundlePaths
    from codequarry.schemas.bundle.manifest import Manifest

gates_app = typer.Typer(
    help="Great Expectations: lengths, nulls, foreign keys, quantiles and distributions of every table.",
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
    """Measure the tables of a published version with Great Expectations, and keep the result documents.

    Single rows are judged when a version is published, and by `codequarry doctor`. Exit code 1 when an
    expectation does not hold. Tables that were measured before are answered from their document.

    Examples:

      codequarry gates check

      codequarry gates check previous --json
    """
    settings = load_settings(settings_file, bundle_root=root, look="above")
    name, results = _check_version(settings, version)
    if as_json:
        typer.echo(json.dumps({"version": name, "gates": _rows(results)}, ensure_ascii=False, indent=1))
    else:
        typer.echo(f"{name}: {counted(len(_rows(results)), 'expectation')}")
        head = ("table", "quantity", "found", "allowed", "examples")
        found = [row for row in _rows(results) if not row["passed"]]
        if found:
            print_table(head, (_cells(row) for row in found), whole=len(head))
        typer.echo(f"{len(found)} failed" if found else "all hold")
    if not all(result.document.passed for result in results):
        raise typer.Exit(1)


@gates_app.command("docs")
def docs(
    out: Annotated[
        Path | None, typer.Option(help="Folder of the pages.", show_default="gates/site, work folder")
    ] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Build the Data Docs of the kept results: those of `codequarry gates check` and of Dagster's runs.

    The last 20 of each table are kept. The pages need no network.

    Examples:

      codequarry gates docs

      codequarry gates docs --out public/gates
    """
    from codequarry.pipelines.gates.great_expectations import build_docs
    from codequarry.pipelines.gates.kept_documents import SITE, documents_folder

    kept = documents_folder(load_settings(settings_file, look="above").paths.work)
    typer.echo(build_docs(kept, out if out is not None else kept / SITE))


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
    from codequarry.pipelines.gates.answers.verdict import PAGE, read_verdict

    bundle_root = BundleRoot(load_settings(settings_file, bundle_root=root, look="above").bundle.root)
    typer.echo(read_verdict(bundle_root, version, "verdict.json" if as_json else PAGE).rstrip("\n"))


def _check_version(settings: Settings, version: str) -> tuple[str, list[TableStatistics]]:
    from codequarry.pipelines.gates.great_expectations import NamedRun, require_great_expectations, run_suite_once
    from codequarry.pipelines.gates.kept_documents import documents_folder
    from codequarry.pipelines.gates.native_suites import NATIVE_SUITES, vectors_suite
    from codequarry.pipelines.gates.published_shares import published_shares
    from codequarry.pipelines.measure.asking import version_called
    from codequarry.serving.version.file_checks import open_tables

    require_great_expectations()
    root = BundleRoot(settings.bundle.root)
    paths = root.published(version_called(root, version))
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=False)
    names = tuple(source.name for source in manifest.sources)
    run = NamedRun(names, manifest.version, datetime.now(UTC))
    results = [
        run_suite_once(
            lambda: open_tables(paths, manifest, ()),
            suite,
            lambda suite=suite: published_shares(root, suite, names, besides=manifest.version),
            run,
            documents_folder(settings.paths.work),
            suite.digest(_digests(paths, manifest, suite)),
        )
        for suite in (*NATIVE_SUITES.values(), *(vectors_suite(leg.channel) for leg in manifest.legs))
    ]
    return manifest.version, results


def _digests(paths: BundlePaths, manifest: Manifest, suite: NativeSuite) -> dict[str, str]:
    """Return the sha256 of the files that a suite reads."""
    read = {
        file.relative_to(paths.path).as_posix()
        for name in (suite.table, *suite.reads)
        for file in paths.table_files(name)
    }
    return {entry.path: entry.sha256 for entry in manifest.files if entry.path in read}


def _rows(results: list[TableStatistics]) -> list[dict[str, object]]:
    return [
        {
            "table": result.document.table,
            "name": each["name"],
            "passed": each["passed"],
            "rows": result.document.summary["rows"],
            "found": each["found"],
            "allowed": each["allowed"],
            "examples": each["examples"],
        }
        for result in results
        for each in result.document.summary["found"]
    ]


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    examples = row["examples"]
    assert isinstance(examples, list)
    return (*(str(row[key]) for key in ("table", "name", "found", "allowed")), "; ".join(map(str, examples)))
