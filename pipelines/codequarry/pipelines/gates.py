"""Gates of other layers, found by name as the commands are: they may ask the very reader that will serve.

A gate is a function of (paths of the staged version, settings, progress) that returns checks.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from codequarry.pipelines.workspace import Progress
from codequarry.schemas.checks import Check
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.settings import Settings

GATES_GROUP = "codequarry.gates"


def gate_checks(paths: BundlePaths, settings: Settings, progress: Progress) -> tuple[Check, ...]:
    """What every gate says of a staged version. Raises what a gate raises, with which nothing is published."""
    gates = sorted(entry_points(group=GATES_GROUP), key=lambda entry: entry.name)
    return tuple(check for gate in gates for check in gate.load()(paths, settings, progress))
