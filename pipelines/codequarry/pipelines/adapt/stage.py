"""Stage 2b, if the settings want it: adapt the encoder to the repositories before their chunks are embedded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from codequarry.pipelines.adapt.tuning import History, adapted, histories, require_tuning
from codequarry.pipelines.embed.encoders import Adapted, adapted_pointer, checked_base
from codequarry.pipelines.sources.snapshot import read_snapshot
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.parts import hashed
from codequarry.pipelines.store.workspace import Progress, exclusive, repository_work, silent, write_json
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec

_RESULT = "result.json"


@dataclass(frozen=True, slots=True)
class AdaptationReport:
    """Result of the adaptation."""

    said: str
    """The verdict in one line, or the reason for having none."""
    kept: bool
    """True when the adapted encoder is used."""
    reused: bool
    """True when the result is from an earlier run."""


def adapt_encoder(settings: Settings, progress: Progress = silent) -> AdaptationReport | None:
    """Train the static encoder further on all repositories, and let later stages use it where it is surely better.

    The result for the same files, history, encoder and program is kept in the store.

    Args:
        settings: Settings of the run.
        progress: Called with (task, units done, units in all).

    Returns:
        The result; None, with the encoder unchanged, where the settings want no adaptation.

    Raises:
        SourceError: The snapshot stage of a repository has not run.
        InvalidArgumentError: The settings name another kind of encoder.
        MissingExtraError: The extra ``train`` is needed.
    """
    adapted_pointer(settings).unlink(missing_ok=True)
    if not settings.embedding.adapt:
        return None
    require_tuning(settings, "[embedding] adapt")
    base = EncoderSpec.load(checked_base(settings)).fingerprint
    found = histories(settings)
    folder = adapted_folders(settings) / _key(base, found, settings)
    with exclusive(folder.with_name(f".{folder.name}.lock"), "fitting the encoder", wait=True):
        known = _read_earlier_result(folder)
        made = known or _adapt_encoder(folder, base, found, settings, progress)
    write_json(adapted_pointer(settings), asdict(made))
    return AdaptationReport(made.said, made.kept, known is not None)


def adapted_folders(settings: Settings) -> Path:
    """Return the folder of the store with the results of every adaptation."""
    return settings.paths.store / "adapted"


def _key(base: str, found: Sequence[History], settings: Settings) -> str:
    """Return a hash of all that decides the result."""
    deciding: list[object] = [base, tool_versions()]
    for history in found:
        snapshot = read_snapshot(repository_work(settings.paths.work, history.name))
        changes = [
            [commit.message, *([one.path, one.old_oid, one.new_oid] for one in commit.changes)]
            for commit in history.commits
        ]
        deciding.append([history.name, snapshot.tree_sha256, changes])
    return hashed(deciding)[:32]


def _read_earlier_result(folder: Path) -> Adapted | None:
    """Return the earlier result; None when there is none, or its encoder is damaged."""
    try:
        result = Adapted(**json.loads((folder / _RESULT).read_text(encoding="utf-8")))
        if result.kept:
            EncoderSpec.load(result.folder).verify(result.folder)
    except (OSError, ValueError, TypeError, CodequarryError):
        return None
    return result


def _adapt_encoder(folder: Path, base: str, found: list[History], settings: Settings, progress: Progress) -> Adapted:
    """Adapt the encoder, and write the result last: a folder without one is of a killed run."""
    shutil.rmtree(folder, ignore_errors=True)
    empty = Adapted(base, "", str(folder), False)
    try:
        verdict = adapted(found, settings, empty.folder, progress=progress)
        result = Adapted(base, str(verdict), str(folder), verdict.better)
    except InvalidArgumentError as error:
        result = Adapted(base, f"not tried: {error.message}", str(folder), False)
    write_json(folder / _RESULT, asdict(result))
    return result
