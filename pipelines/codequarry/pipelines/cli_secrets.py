"""What ``codequarry index`` says of the secrets it found: how many, of which kind and where, never what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from codequarry.pipelines.cli_census import plain
from codequarry.pipelines.secret_scanner import ALLOWED
from codequarry.pipelines.snapshot import Snapshot
from codequarry.pipelines.workspace import repository_work
from codequarry.schemas.settings import Settings

_PLACES = 20


def secret_counts(snapshots: Sequence[Snapshot]) -> str:
    """How many there are, in one line."""
    if all(snapshot.secrets is None for snapshot in snapshots):
        return "not looked for: secrets.scan is false"
    kinds: Counter[str] = Counter()
    for snapshot in snapshots:
        kinds.update(snapshot.secrets or {})
    if not kinds:
        return "none found"
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items(), key=lambda one: (-one[1], one[0])))
    return f"{kinds.total():,} replaced by asterisks: {counts}"


def secret_places(snapshots: Sequence[Snapshot], settings: Settings) -> list[str]:
    """Where they are, and what to do about it: lines of harmless characters."""
    found = [(snapshot.name, place) for snapshot in snapshots for place in snapshot.secret_places]
    if not found:
        return []
    lines = [f"  {plain(name)}/{plain(place)}" for name, place in found[:_PLACES]]
    if len(found) > _PLACES:
        files = sorted({str(repository_work(settings.paths.work, name).snapshot) for name, _ in found[_PLACES:]})
        lines.append(f"  and {len(found) - _PLACES:,} more, in {', '.join(files)}")
    return [
        "secrets, to be revoked and taken out of the repository:",
        *lines,
        f"  what is none: {ALLOWED} in a comment beside it, or [secrets] allow",
    ]
