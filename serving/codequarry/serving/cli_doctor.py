"""``codequarry doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from codequarry.schemas.settings import load_settings
from codequarry.serving.cli_options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli_query import for_terminal

if TYPE_CHECKING:
    from codequarry.serving.doctor import Finding

_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(as_json: JsonOption = False, root: RootOption = None, settings_file: SettingsOption = None) -> None:
    """Look at everything that can be wrong with the bundle root, and change nothing.

    Every checksum of every version; of the current one also row counts, joins, dimensions and fingerprints; CURRENT,
    leftovers of killed runs, disk space, tools, settings. Exit code: 0 = well, 1 = warnings, 2 = errors.

    Example: codequarry doctor

    Example: codequarry doctor --json
    """
    settings = load_settings(settings_file, bundle_root=root)
    from codequarry.serving.doctor import SEVERITY, examine

    findings: list[Finding] = []
    for finding in examine(settings):
        findings.append(finding)
        if not as_json:
            _print(finding)
    code = max(SEVERITY[finding.level] for finding in findings)
    counts = {level: sum(finding.level == level for finding in findings) for level in SEVERITY}
    if as_json:
        rows = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"exit_code": code, "counts": counts, "findings": rows}, ensure_ascii=False, indent=2))
    else:
        typer.echo(", ".join(f"{count} {level}" for level, count in counts.items() if count))
    raise typer.Exit(code)


def _print(finding: Finding) -> None:
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
    Console(soft_wrap=True, highlight=False).print(line)
