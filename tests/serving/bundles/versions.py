"""Versions that differ in one marked chunk, and CURRENT moved among them as a publish does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchAnswer
from codequarry.serving.engine.engine import Engine
from codequarry.serving.engine.follow import Follower
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.bundles.corpus import COMMITS, PIECES

MARKER = "which_version_is_this"


def marked(number: int) -> Piece:
    """The chunk that only one version holds."""
    return Piece(f"marks/v{number}.py", f"def {MARKER}():\n    return 'marker {number}'\n", MARKER, (MARKER,))


def publish(root: Path, number: int, *, encoder: Path | None = None) -> Current:
    """Write a version with its mark, and point CURRENT at it."""
    write_bundle(
        root, [*PIECES, marked(number)], encoder=encoder, version=f"20260101T0000{number:02d}Z-0123abcd",
        commits=COMMITS,
    )  # fmt: skip
    return BundleRoot(root).read_current()


def flip(root: Path, current: Current | bytes) -> None:
    """Replace CURRENT atomically."""
    aside = root / ".CURRENT.new"
    aside.write_bytes(current.line().encode() if isinstance(current, Current) else current)
    os.replace(aside, root / "CURRENT")


def followed(root: Path, **settings: object) -> tuple[Engine, Follower]:
    """An engine, and a follower that looks only when it is told to."""
    engine = Engine(Bundle.open_current(root), ServingSettings.model_validate(settings))
    engine.follower = Follower(root, engine.served, engine.settings)
    return engine, engine.follower


def number_of(answer: SearchAnswer) -> int:
    """The number of the version an answer names, after checking that the answer was computed from it alone."""
    number = int(answer.bundle.version[13:15])
    marks = [result for result in answer.results if result.title.startswith("quarry/marks/")]
    assert [result.id for result in marks] == [str(marked(number).id)], answer
    assert f"marker {number}'" in marks[0].snippet
    return number


def until(condition: Callable[[], object], *, seconds: float = 30) -> None:
    """Wait for another thread or process. Raises AssertionError: it took too long."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.005)
