"""Following CURRENT: what it names is opened, checked and warmed beside the open version, then takes its place.

One thread does all of it, so that no request waits for a disk. CURRENT is read, not only looked at: file times are too
coarse on some file systems, and cached on network mounts.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.integrity import differences, file_sha256
from codequarry.schemas.layout import DENSE_LEGS, BundleRoot, Current, leg_suffix
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import FetchRequest, SearchRequest
from codequarry.serving.bundle import Bundle
from codequarry.serving.deadline import Deadline
from codequarry.serving.fetch import fetch
from codequarry.serving.search import search
from codequarry.serving.served import Served

logger = logging.getLogger(__name__)

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
_STOP_S = 2.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why what CURRENT holds is not served."""

    current: Current | None
    """None: CURRENT itself cannot be used."""
    reason: str
    attempts: int = 1
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Follower:
    """Keeps `Served` at the version CURRENT names, as long as that one is sound."""

    def __init__(self, root: Path, served: Served, settings: ServingSettings) -> None:
        self._root = BundleRoot(root)
        self._served = served
        self._settings = settings
        self._idle: SimpleQueue[Bundle | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._retry_at = self._check_at = 0.0
        self._thread = threading.Thread(target=self._run, name="follow-current", daemon=True)
        self.refusal: Refusal | None = None
        """The last one since the start."""
        self.following = True
        """Whether the served version is the one CURRENT named when it was last read."""
        self.verified = False
        """Whether every byte of the served version was compared with its manifest."""
        self.damage: dict[str, str] = {}
        """Damaged files of the served version, and what was found in their place."""

    def start(self) -> None:
        """Look at CURRENT every ``follow_interval_s`` from now on."""
        self._served.close_idle = self._idle.put
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a disk that keeps it waiting for long does not keep the process."""
        self._stopping.set()
        self._idle.put(None)
        self._thread.join(_STOP_S)
        self._served.close_idle = Bundle.close
        self._close_idle()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._wait()
                if not self._stopping.is_set():
                    self.look()
                if not self._stopping.is_set() and not self.verified:
                    self.check()
            except _Superseded:
                continue
            except Exception:
                # Without this thread no version would ever be followed again.
                logger.exception("following CURRENT failed; the next look may go well")

    def _wait(self) -> None:
        """Until the next look, closing versions that nobody uses any more."""
        until = time.monotonic() + self._settings.follow_interval_s
        while (left := until - time.monotonic()) > 0 and not self._stopping.is_set():
            try:
                bundle = self._idle.get(timeout=left)
            except Empty:
                return
            if bundle is not None:
                bundle.close()

    def _close_idle(self) -> None:
        while not self._idle.empty():
            if (bundle := self._idle.get()) is not None:
                bundle.close()

    def look(self) -> None:
        """Read CURRENT once, and serve what it names when that is another version and a sound one."""
        try:
            current = self._root.read_current()
        except UnavailableError as error:
            self._refuse(None, error.message)
            return
        if current == self._open_current():
            self.following = True
            return
        if not self._due(current):
            return
        try:
            bundle = self._prepared(current)
        except CodequarryError as error:
            self._refuse(current, error.message)
        except _Superseded:
            raise
        except Exception as error:  # no version may end the thread that waits for the next one
            if self._refuse(current, f"opening it failed ({type(error).__name__})"):
                logger.exception("opening version %s failed", current.version)
        else:
            self._served.swap(bundle)
            self.following, self.verified, self.damage = True, True, {}
            logger.info("serving version %s", current.version)

    def check(self) -> None:
        """Read every file of the version that was opened at the start, which until now was only checked for sizes."""
        if time.monotonic() < self._check_at:
            return
        bundle = self._served.bundle  # this thread alone replaces it, so that it needs no lease
        try:
            read = partial(file_sha256, after_block=self._pace(bundle.current))
            found = differences(bundle.paths, bundle.manifest, deep=True, sha256=read)
        except (OSError, IntegrityError) as error:
            self._check_at = time.monotonic() + LAST_RETRY_S
            logger.warning("version %s cannot be verified now: %s", bundle.manifest.version, error)
            return
        self.verified, self.damage = True, found
        for channel in bundle.channels:
            if files := [name for name in found if _part(name) == channel]:
                bundle.shut(channel, f"damaged: {', '.join(files)}")
        if not found:
            return
        named = "; ".join(f"{name}: {what}" for name, what in found.items())
        logger.warning("version %s is damaged: %s", bundle.manifest.version, named)
        if any(_part(name) == "catalog" for name in found):
            error = IntegrityError(
                f"version {bundle.manifest.version} is damaged: {named}",
                suggestion="roll back to another version, or publish again",
            )
            self._served.refuse(error)
            self._refuse(bundle.current, error.message)

    def _open_current(self) -> Current | None:
        try:
            return self._served.bundle.current
        except UnavailableError:
            return None

    def _due(self, current: Current) -> bool:
        refused = self.refusal
        return refused is None or self.following or refused.current != current or time.monotonic() >= self._retry_at

    def _prepared(self, current: Current) -> Bundle:
        """The version, open, compared byte by byte, warm, and answering on every channel the served one answers on."""
        bundle = Bundle.open_version(self._root, current, self._settings, after_block=self._pace(current))
        try:
            self._warm(bundle)
            self._refuse_loss(bundle)
            if self._stopping.is_set():
                raise _Superseded
        except BaseException:
            bundle.close()
            raise
        return bundle

    def _warm(self, bundle: Bundle) -> None:
        """One search and one fetch: maps, code paths and encoder are then where a request needs them."""
        deadline = Deadline.after(math.inf)
        found = search(bundle, SearchRequest(query="open the file"), self._settings, deadline)
        if found.results:
            fetch(bundle, FetchRequest(id=found.results[0].id), deadline)

    def _refuse_loss(self, bundle: Bundle) -> None:
        """Raises UnavailableError: a channel that answers now would be lost."""
        try:
            served = self._served.bundle
        except UnavailableError:
            return
        working = served.channels.keys() - served.problems().keys()
        lost = {name: reason for name, reason in bundle.problems().items() if name in working}
        if lost:
            raise UnavailableError("; ".join(f"channel {name} is off: {reason}" for name, reason in lost.items()))

    def _refuse(self, current: Current | None, reason: str) -> bool:
        """Remember why, and log it when it is news, which is what is returned."""
        reason = reason.replace(f"{self._root.path}/", "").replace(str(self._root.path), "the bundle root")
        last = None if self.following else self.refusal
        repeated = last is not None and last.current == current
        attempts = last.attempts + 1 if last is not None and repeated else 1
        news = last is None or not repeated or last.reason != reason
        if news:
            logger.warning("not serving %s: %s", current.version if current else "what CURRENT holds", reason)
        self.refusal = Refusal(current, reason, attempts)
        self.following = False
        self._retry_at = time.monotonic() + min(FIRST_RETRY_S * 2 ** min(attempts - 1, 16), LAST_RETRY_S)
        return news

    def _pace(self, current: Current) -> Callable[[], None]:
        """What to do after each MiB: leave half of the core to others, and stop when CURRENT names another version."""
        since = looked = time.monotonic()

        def pause() -> None:
            nonlocal since, looked
            now = time.monotonic()
            if self._stopping.wait(now - since):
                raise _Superseded
            since = time.monotonic()
            if since - looked >= self._settings.follow_interval_s:
                looked = since
                try:
                    named = self._root.read_current()
                except UnavailableError:
                    return
                if named != current:
                    raise _Superseded

        return pause


class _Superseded(Exception):
    """CURRENT names another version, or the server stops: the work at hand is of no use."""


def _part(name: str) -> str:
    """Which part of the service a file of a version belongs to; "" when requests never read it."""
    for leg in DENSE_LEGS:
        own = name.startswith(f"{leg}.") and name.endswith(("index", ".vectors.npy"))
        if own or name.startswith(f"encoder{leg_suffix(leg)}/"):
            return leg
    if name.startswith(("bm25/", "warp/", "splade/")):
        return name.partition("/")[0]
    return "catalog" if name == "catalog.duckdb" or name.startswith(("texts.", "rows/")) else ""
