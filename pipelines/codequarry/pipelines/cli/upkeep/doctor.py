"""``codequarry doctor``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.pipelines.cli.progress import Bars, console
from codequarry.schemas.settings.load import load_settings
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import echo_json, for_terminal, print_table

if TYPE_CHECKING:
    from codequarry.serving.engine.doctor import Diagnosis

_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    self_test: Annotated[
        bool,
        typer.Option(
            "--self-test", help="Check this installation instead, on a tiny corpus whose answers are known by hand."
        ),
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="List also what is well, and notes.")] = False,
    as_json: JsonOption = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Look at everything that can be wrong with the bundle root, change nothing, and list the problems.

    Every checksum of every version; of the current one also row counts, joins, dimensions and fingerprints; CURRENT,
    leftovers of killed runs, disk space, tools, settings. Exit code: 0 = well, 1 = warnings, 2 = errors.

    Example: codequarry doctor

    Example: codequarry doctor --all

    Example: codequarry doctor --self-test
    """
    if self_test:
        _self_test(as_json)
        return
    settings = load_settings(settings_file, bundle_root=root, look="up")
    from codequarry.serving.engine.doctor import SEVERITY, examine

    findings: list[Diagnosis] = []
    with console.status("looking at every byte of every version"):
        for finding in examine(settings):
            findings.append(finding)
            if not as_json and (every or SEVERITY[finding.level]):
                _print(finding)
    code = max(SEVERITY[finding.level] for finding in findings)
    counts = {level: sum(finding.level == level for finding in findings) for level in SEVERITY}
    if as_json:
        rows = [asdict(finding) for finding in findings]
        echo_json({"exit_code": code, "counts": counts, "findings": rows})
    else:
        told = ", ".join(f"{count} {level}" for level, count in counts.items() if count)
        typer.echo(told if every else f"{told}; `codequarry doctor --all` lists everything that was looked at")
    raise typer.Exit(code)


def _self_test(as_json: bool) -> None:
    """Index and search the golden oracle pack.

    Args:
        as_json: Print JSON.

    Raises:
        typer.Exit: With code 2, when a promise is not kept.
    """
    from codequarry.pipelines.evaluation.self_test import check_golden

    with Bars() as bars:
        checks = check_golden(bars.show)
    if as_json:
        echo_json([check._asdict() for check in checks])
    else:
        rows = ((check.index, check.what, "yes" if check.kept else "NO", check.found) for check in checks)
        print_table(("index", "what", "kept", "found"), rows, whole=4)
    if not all(check.kept for check in checks):
        raise typer.Exit(2)


def _print(finding: Diagnosis) -> None:
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(
        (f"{finding.level:>7}  ", _STYLES[finding.level]),
        f"{finding.area}: {finding.name}: {for_terminal(finding.found)}",
    )
    if finding.expected and finding.level != "ok":
        line.append(f", expected {for_terminal(finding.expected)}")
    if finding.suggestion and finding.level != "ok":
        line.append(f"; {finding.suggestion}", "dim")
    Console(soft_wrap=not sys.stdout.isatty(), highlight=False).print(line)
