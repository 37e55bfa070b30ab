"""Following of a replica: a generation that arrives is opened beside the served one, then replaces it as a whole."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from codequarry.schemas.bundle.layout import Current
from codequarry.schemas.errors import CodequarryError, UnavailableError
from codequarry.schemas.fleet.replica import HeldGeneration, ReplicaRoot, version_line
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.follow import FIRST_RETRY_S, LAST_RETRY_S, Refusal
from codequarry.serving.fleet.fleet_call import MissingBundle
from codequarry.serving.fleet.fleet_engine import FleetEngine, ServedGeneration
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.served import Served

logger = logging.getLogger(__name__)

_STOP_S = 2.0


def open_replica(folder: Path, settings: ServingSettings) -> FleetEngine:
    """Open the generation that a replica holds, and follow it.

    Args:
        folder: Folder that `codequarry fleet pull` fills.
        settings: Limits, stages and model servers.

    Returns:
        The engine. Bundles that cannot be opened are named in every answer.

    Raises:
        UnavailableError: Nothing was pulled there, its file is damaged, or no bundle can be opened.
    """
    root = ReplicaRoot(folder)
    held = root.read()
    opened = _open(root, held, settings, {})
    if not opened.served:
        reasons = "; ".join(f"{name}: {each.reason}" for name, each in opened.missing.items())
        raise UnavailableError(
            f"no bundle of generation {opened.number} can be served: {reasons or 'its share has none'}",
            suggestion="run `codequarry fleet pull` again, or choose another share",
        )
    engine = FleetEngine(opened, settings)
    engine.follower = ReplicaFollower(root, engine, settings, held.sha256)
    engine.follower.start()
    return engine


class ReplicaFollower:
    """Thread that keeps an engine at the generation that a replica holds, as long as all its bundles are sound."""

    def __init__(self, root: ReplicaRoot, engine: FleetEngine, settings: ServingSettings, sha256: str) -> None:
        """Follow a replica.

        Args:
            root: Its folder.
            engine: Gets each generation.
            settings: Interval and limits.
            sha256: Hash of the generation that the engine serves.
        """
        self._root, self._engine, self._settings, self._sha256 = root, engine, settings, sha256
        self._stopping = threading.Event()
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._run, name="follow-replica", daemon=True)
        self.refusal: Refusal | None = None
        """Reason why the generation that is held is not served; None when it is."""

    def start(self) -> None:
        """Start to read the replica's file every ``follow_interval_s``."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a disk that blocks it for long does not keep the process alive."""
        self._stopping.set()
        self._thread.join(_STOP_S)

    def look(self) -> None:
        """Read the replica's file once, and serve its generation when that is another one whose bundles all open."""
        self._engine.drop_before()
        try:
            held = self._root.read()
            if held.sha256 == self._sha256 and not self._engine.generation.missing:
                self.refusal = None
                return
            if time.monotonic() < self._retry_at:
                return
            opened = _open(self._root, held, self._settings, self._engine.generation.served)
        except CodequarryError as error:
            self._refuse(error.message)
            return
        if opened.missing:
            for name, served in opened.served.items():
                if self._engine.generation.served.get(name) is not served:
                    served.close()
            self._refuse(
                "; ".join(f"generation {opened.number}, {name}: {each.reason}" for name, each in opened.missing.items())
            )
            return
        self._engine.swap(opened)
        self._sha256, self.refusal, self._retry_at = held.sha256, None, 0.0
        logger.info("generation %d is served", opened.number)

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.follow_interval_s):
            try:
                self.look()
            except Exception:
                # Without this thread, the replica would not be followed any more.
                logger.exception("following the replica failed; the next look may go well")

    def _refuse(self, reason: str) -> None:
        attempts = self.refusal.attempts + 1 if self.refusal is not None and self.refusal.reason == reason else 1
        self.refusal = Refusal(None, reason, attempts)
        self._retry_at = time.monotonic() + min(FIRST_RETRY_S * 2 ** min(attempts - 1, 10), LAST_RETRY_S)
        if attempts == 1:
            logger.warning("refused: %s", reason)


def _open(
    root: ReplicaRoot, held: HeldGeneration, settings: ServingSettings, before: Mapping[str, Served]
) -> ServedGeneration:
    """Open the bundles of a generation, of which those of the one before that did not change are open already."""
    served: dict[str, Served] = {}
    missing: dict[str, MissingBundle] = {}
    for name, entry in held.own_bundles.items():
        line, known = version_line(entry), before.get(name)
        if known is not None and _line_of(known) == line:
            served[name] = known
            continue
        try:
            served[name] = Served(Bundle.open_version(root.bundle(name), line, settings))
        except CodequarryError as error:
            missing[name] = MissingBundle(error.message, frozenset(entry.repositories))
    others = held.fleet.bundles.keys() - held.own_bundles.keys()
    elsewhere = {name: frozenset(held.fleet.bundles[name].repositories) for name in others}
    return ServedGeneration(held.fleet.generation, held.fleet.created, served, missing, held.sha256, elsewhere)


def _line_of(served: Served) -> Current | None:
    try:
        return served.bundle.current
    except UnavailableError:
        return None
