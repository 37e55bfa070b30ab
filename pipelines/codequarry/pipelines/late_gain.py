"""Stage 5c, where the settings want it: whether late interaction helps on these repositories.

It is measured before a version is staged. What asks is a reader, which this layer does not know: a program registered
as `late` among the entry points of `GROUP` does (ours is `codequarry.assets.late_gain`). What came of the same files,
encoders and program is kept in the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from codequarry.pipelines.encoders import encoder_directories
from codequarry.pipelines.parts import hashed
from codequarry.pipelines.ranking_profile import late_pointer, profile_of
from codequarry.pipelines.snapshot import read_snapshot
from codequarry.pipelines.sources import named
from codequarry.pipelines.tools import tool_versions
from codequarry.pipelines.warp_stage import token_encoding
from codequarry.pipelines.workspace import Progress, exclusive, repository_work, silent, write_json
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.ranking import LateVerdict
from codequarry.schemas.settings import Settings

GROUP = "codequarry.measures"
LEAST_QUESTIONS = 20
"""Fewer tell nothing."""


class LateGain(NamedTuple):
    """NDCG@10 over mined questions, by the ranking profile in use."""

    questions: int
    without: float
    with_late: float
    low: float
    """95 % of the difference, paired."""
    high: float


Measure = Callable[[Settings, Progress], LateGain]


@dataclass(frozen=True, slots=True)
class LateReport:
    """What came of it."""

    verdict: LateVerdict
    reused: bool
    """Whether it was known from an earlier run."""


def measure_late(settings: Settings, progress: Progress = silent) -> LateReport | None:
    """Measure late interaction on questions mined from a sample of the repositories; off where it does not help.

    None, and the ranking profile as it is, where the settings do not want that. What came of the same files,
    encoders, profile and program is kept in the store. Too few questions decide nothing.

    Raises SourceError: the snapshot stage of a repository has not run. Raises as `encoder_directories` and
    `profile_of` besides.
    """
    late_pointer(settings).unlink(missing_ok=True)
    if not (settings.late_interaction and settings.warp.measure):
        return None
    file = late_folder(settings) / f"{_key(settings)}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.with_name(f".{file.stem}.lock"), "measuring late interaction", wait=True):
        known = _known(file)
        verdict = known or _measured(settings, progress)
        write_json(file, asdict(verdict))
    write_json(late_pointer(settings), asdict(verdict))
    return LateReport(verdict, known is not None)


def late_folder(settings: Settings) -> Path:
    """Where the store keeps what came of every measurement."""
    return settings.paths.store / "late"


def verdict_of(gain: LateGain) -> LateVerdict:
    """Late interaction stays where questions are answered better with it, by whatever margin.

    >>> verdict_of(LateGain(30, 0.5, 0.5, -0.1, 0.1))
    LateVerdict(helps=False, said='off: 0.500 -> 0.500 NDCG@10 over 30 mined questions (-0.100 to +0.100)')
    """
    helps = gain.with_late > gain.without
    said = (
        f"{'on' if helps else 'off'}: {gain.without:.3f} -> {gain.with_late:.3f} NDCG@10 over {gain.questions} "
        f"mined questions ({gain.low:+.3f} to {gain.high:+.3f})"
    )
    return LateVerdict(helps, said)


def _key(settings: Settings) -> str:
    """Hash of what decides the verdict."""
    encoders = [EncoderSpec.load(folder).fingerprint for folder in encoder_directories(settings).values()]
    trees = [
        [name, read_snapshot(repository_work(settings.paths.work, name)).tree_sha256]
        for name in sorted(named(settings.sources.repositories))
    ]
    profile = profile_of(settings).model_dump(mode="json")
    deciding = [settings.index_hash(), encoders, token_encoding(settings).fingerprint, profile, tool_versions(), trees]
    return hashed(deciding)[:32]


def _known(file: Path) -> LateVerdict | None:
    """What came of it before; None when that is not known."""
    try:
        return LateVerdict(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _measured(settings: Settings, progress: Progress) -> LateVerdict:
    found = [point for point in entry_points(group=GROUP) if point.name == "late"]
    if not found:
        return LateVerdict(True, f"not measured: no program named late among the entry points of {GROUP}")
    measure: Measure = found[0].load()
    try:
        gain = measure(settings, progress)
    except InvalidArgumentError as error:
        return LateVerdict(True, f"not measured: {error.message}")
    if gain.questions < LEAST_QUESTIONS:
        return LateVerdict(
            True, f"not measured: {gain.questions} questions can be mined, expected {LEAST_QUESTIONS} or more"
        )
    return verdict_of(gain)
