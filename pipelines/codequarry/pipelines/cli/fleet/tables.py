"""The plan of a fleet, as people and programs read it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table

from codequarry.serving.cli.terminal import for_terminal

if TYPE_CHECKING:
    from codequarry.pipelines.fleet.fleet_build import PlannedFleet


def print_plan(planned: PlannedFleet) -> None:
    """Print the bundle of each repository with its reason, and the bundles that a build would look at."""
    answer = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    table = Table("bundle", "repository", Column("chunks", justify="right"), "why", box=None, padding=(0, 1))
    for bundle, names in planned.plan.bundles.items():
        for name in names:
            placement = planned.plan.placements[name]
            table.add_row(bundle, for_terminal(name), f"{placement.chunks:,}", placement.reason)
    answer.print(table)
    for bundle, reason in planned.reasons.items():
        answer.print(
            for_terminal(f"{bundle}: {f'would be looked at, because {reason}' if reason else 'stays untouched'}")
        )
    for name, bundle in planned.plan.gone.items():
        answer.print(for_terminal(f"{name} leaves {bundle}: it is listed no longer"))
    for name, failure in planned.left_out.items():
        answer.print(for_terminal(f"{name} would be left out: {failure.error}"))


def plan_as_json(planned: PlannedFleet) -> str:
    """Return the plan for programs."""
    placements = planned.plan.placements
    return json.dumps(
        {
            "bundles": {
                bundle: {
                    "chunks": sum(placements[name].chunks for name in names),
                    "reason": planned.reasons[bundle],
                    "repositories": {
                        name: {
                            "chunks": placements[name].chunks,
                            "reason": placements[name].reason,
                            "before": placements[name].before,
                        }
                        for name in names
                    },
                }
                for bundle, names in planned.plan.bundles.items()
            },
            "gone": dict(planned.plan.gone),
            "left_out": {name: each.error for name, each in planned.left_out.items()},
        },
        indent=1,
    )
