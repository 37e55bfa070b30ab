"""Sentences about builds of a fleet, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codequarry.pipelines.cli.progress import console
from codequarry.schemas.wording import counted
from codequarry.serving.cli.terminal import for_terminal

if TYPE_CHECKING:
    from codequarry.pipelines.fleet.fleet_build import FleetBuild
    from codequarry.schemas.fleet.generation import FleetManifest


def tell(sentence: str, *, lead: str = "", style: str = "") -> None:
    """Print a sentence to standard error.

    Args:
        sentence: The sentence.
        lead: Words before it, in a style of their own.
        style: Style of these words.
    """
    if lead:
        console.print(lead, style=style, end=" ", highlight=False)
    console.print(for_terminal(sentence), highlight=False, markup=False, soft_wrap=not console.is_terminal)


def print_build(done: FleetBuild) -> None:
    """Print what a build ended with: the generation that is current, what was removed, what failed."""
    for number in done.removed:
        tell(f"retention removed generation {number}")
    for text in done.warnings:
        tell(text, lead="warning:", style="yellow")
    for name, failure in done.failures.items():
        said = f"{name} goes on as it was" if name not in done.manifest.left_out else f"{name} is left out"
        tell(f"{said}, since {failure.since}: {failure.error}", lead="warning:", style="yellow")
    verb = "unchanged: current is" if done.unchanged else "current is"
    sent = f"{done.sent_bytes / 1e6:.2f} MB travelled"
    tell(f"generation {describe_generation(done.manifest)}; {sent}", lead=verb, style="green")


def describe_generation(manifest: FleetManifest) -> str:
    """Return number and sizes of a generation, in words."""
    repositories = counted(len(manifest.bundle_of), "repository")
    return (
        f"{manifest.generation}: {counted(len(manifest.bundles), 'bundle')}, {repositories}, {manifest.chunks:,} chunks"
    )
