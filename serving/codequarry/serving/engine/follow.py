"""Following of CURRENT: its version is opened, checked and warmed up beside the open one, then replaces it.

One thread does all of it, so that no request waits for a disk. CURRENT is read, and not only checked for its file time:
times are too coarse on some file systems, and cached on network mounts. Where a glance between two reads finds another
file, it is read at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from codequarry.schemas.bundle.layout import DENSE_LEGS, BundleRoot, Current, embeddings_table, leg_suffix
from codequarry.schemas.errors import (
    CodequarryError,
    IntegrityError,
    NoBundleError,
    ResourcesError,
    UnavailableError,
)
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import FetchRequest, SearchRequest
from codequarry.serving.engine.scrub import Damage, Scrub, read_again
from codequarry.serving.engine.served_refs import ServedRefs
from codequarry.serving.files.file_watch import is_read_by_requests
from codequarry.serving.files.integrity import differences, file_sha256
from codequarry.serving.files.version_order import versions_before
from codequarry.serving.request.deadline import NEVER
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.fetch import fetch
from codequarry.serving.tools.search import find_results
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.served import Served

logger = logging.getLogger(__name__)

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
_STOP_S = 2.0
_GLANCE_S = 0.02
"""Seconds between two glances at the file CURRENT while a look is waited for."""
_LEAST_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why the content of CURRENT is not served."""

    current: Current | None
    """None: CURRENT itself cannot be used."""
    reason: str
    attempts: int = 1
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Follower:
    """Thread that keeps `Served` at the version CURRENT names, as long as that version is sound."""

    def __init__(self, root: Path, served: Served, settings: ServingSettings, *, awaiting: bool = False) -> None:
        """Follow CURRENT.

        Args:
            root: Bundle root.
            served: Gets each version.
            settings: Interval and limits.
            awaiting: No version is published yet, which is no reason for a refusal.
        """
        self._awaiting = awaiting
        self._root = BundleRoot(root)
        self._served = served
        self._settings = settings
        self._idle: SimpleQueue[Bundle | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._retry_at = self._check_at = 0.0
        self._file: tuple[int, int] | None = None
        """Identity of the file CURRENT at the start and when it was last read."""
        self._scrub = Scrub(settings.scrub_mb_s)
        self._thread = threading.Thread(target=self._run, name="follow-current", daemon=True)
        self.refs: ServedRefs | None = None
        """Versions of further refs, which are closed when their refs name others."""
        self.refusal: Refusal | None = None
        """Last refusal since the start."""
        self.following = True
        """True when the served version is the one CURRENT named when it was last read."""
        self.verified = False
        """True when every byte of the served version was compared with its manifest."""
        self.damage: dict[str, str] = {}
        """Damaged files of the served version, and what was found in their place."""

    def start(self) -> None:
        """Start to read CURRENT every ``follow_interval_s``."""
        self._served.close_idle = self._idle.put
        self._file = self._identity()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a disk that blocks it for long does not keep the process alive."""
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
                    if self.refs is not None:
                        self.refs.close_stale()
                if not self._stopping.is_set():
                    self.watch()
                if not self._stopping.is_set() and not self.verified:
                    self.check()
            except _Superseded:
                continue
            except Exception:
                # Without this thread, CURRENT would not be followed any more.
                logger.exception("following CURRENT failed; the next look may go well")

    def _wait(self) -> None:
        """Wait until the next look, another file CURRENT or an alarm, closing versions that are no longer used."""
        until = time.monotonic() + self._settings.follow_interval_s
        while (left := until - time.monotonic()) > 0 and not self._stopping.is_set():
            try:
                bundle = self._idle.get(timeout=min(left, _GLANCE_S))
            except Empty:
                if self._identity() != self._file:
                    return
                continue
            if bundle is None:
                return
            bundle.close()

    def _identity(self) -> tuple[int, int] | None:
        """Return what tells the file CURRENT from one that replaces it; None where there is none."""
        try:
            found = self._root.current.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _close_idle(self) -> None:
        while not self._idle.empty():
            if (bundle := self._idle.get()) is not None:
                bundle.close()

    def look(self) -> None:
        """Read CURRENT once, and serve its version when that is another and a sound one."""
        self._file = self._identity()
        try:
            current = self._root.read_current()
        except UnavailableError as error:
            if not (self._awaiting and isinstance(error, NoBundleError)):
                self._refuse(None, error.message)
            return
        self._awaiting = False
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
        """Read every file of the version that was opened at the start; until now only sizes were checked."""
        if time.monotonic() < self._check_at or self._open_current() is None:
            return
        bundle = self._served.bundle  # this thread alone replaces it, so that it needs no lease
        try:
            read = partial(file_sha256, after_block=self._pace(bundle.current))
            layers = [(layer.paths, layer.manifest) for layer in bundle.layers]
            damage = {
                name: what for layer in layers for name, what in differences(*layer, deep=True, sha256=read).items()
            }
        except (OSError, IntegrityError, ResourcesError) as error:
            self._read_later(bundle, error)
            return
        self.verified = True
        if not damage:
            bundle.was_read()
        self._take_damage(bundle, damage)

    def watch(self) -> None:
        """Look for files of the served version that were shortened, replaced or written to, and continue the scrub."""
        try:
            bundle = self._served.bundle
        except UnavailableError:
            return
        try:
            for layer in bundle.layers:
                layer.watch.look_now()
        except IntegrityError as error:
            self._stop_serving(bundle, error)
            return
        if time.monotonic() < self._check_at:
            return
        damage: Damage = {}
        try:
            for layer in bundle.layers:
                for name in layer.watch.take_suspects():
                    for piece in read_again(layer, layer.manifest.entry(name)):
                        damage |= {} if isinstance(piece, int) else piece
            if self.verified:
                damage |= self._scrub.step(bundle)
        except OSError as error:
            self._read_later(bundle, error)
        self._take_damage(bundle, damage)

    def alarm(self) -> None:
        """Trigger a look, after a request found that the served version was changed. Callable from any thread."""
        self._idle.put(None)

    def _read_later(self, bundle: Bundle, error: Exception) -> None:
        """Log that a version cannot be verified now, and check again later."""
        self._check_at = time.monotonic() + LAST_RETRY_S
        logger.warning("version %s cannot be verified now: %s", bundle.manifest.version, error)

    def _take_damage(self, bundle: Bundle, damage: Damage) -> None:
        """Disable the channels that read damaged files, or stop serving the version when every request reads them."""
        damage = {name: what for name, what in damage.items() if self.damage.get(name) != what}
        if not damage:
            return
        self.damage = self.damage | damage
        self._distrust(bundle)
        for channel in bundle.channels:
            if files := [name for name in self.damage if _part(name) == channel]:
                bundle.shut(channel, f"damaged: {', '.join(files)}")
        named = "; ".join(f"{name}: {what}" for name, what in damage.items())
        logger.warning("version %s is damaged: %s", bundle.manifest.version, named)
        if any(_part(name) == "catalog" for name in damage):
            error = IntegrityError(
                f"version {bundle.manifest.version} is damaged: {named}",
                suggestion="roll back to another version, or publish again",
            )
            self._stop_serving(bundle, error)

    def _distrust(self, bundle: Bundle) -> None:
        """Let a damaged version and its base be read again before anything is opened from them."""
        bundle.was_damaged()
        if self.refs is not None:
            self.refs.close()

    def _stop_serving(self, bundle: Bundle, error: UnavailableError) -> None:
        """Serve the newest sound version before a damaged one; nothing when there is none."""
        self._served.refuse(error)
        self._distrust(bundle)
        current = bundle.current if self.following or self.refusal is None else self.refusal.current or bundle.current
        self._refuse(current, error.message)
        root = self._root
        for version in reversed(versions_before(root, bundle.manifest.version)):
            try:
                older = self._prepared(Current(version, file_sha256(root.version(version).manifest)), named=current)
            except _Superseded:
                raise
            except CodequarryError as failure:
                logger.warning("version %s cannot be served either: %s", version, failure.message)
                continue
            except Exception:  # as in `look`
                logger.exception("opening version %s failed", version)
                continue
            self._served.swap(older)
            self.verified, self.damage = True, {}
            logger.warning("serving version %s instead of %s", version, bundle.manifest.version)
            return

    def _open_current(self) -> Current | None:
        try:
            return self._served.bundle.current
        except UnavailableError:
            return None

    def _due(self, current: Current) -> bool:
        refused = self.refusal
        return refused is None or self.following or refused.current != current or time.monotonic() >= self._retry_at

    def _prepared(self, current: Current, *, named: Current | None = None) -> Bundle:
        """Open a version, compare it byte by byte, warm it up, and check that no working channel is lost.

        Args:
            current: Version to open.
            named: Content of CURRENT, when that is another version.

        Returns:
            The open version.
        """
        pace = self._pace(named or current)
        bundle = Bundle.open_version(self._root, current, self._settings, after_block=pace)
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
        """Run one search and one fetch, so that maps, code paths and encoder are loaded before the first request."""
        context = ToolContext(bundle, self._settings, NEVER)
        answer = find_results(context, SearchRequest(query="open the file", explain=True))
        if answer.results:
            fetch(context, FetchRequest(id=answer.results[0].id))

    def _refuse_loss(self, bundle: Bundle) -> None:
        """Raise UnavailableError when a channel that works in the served version would be lost."""
        try:
            served = self._served.bundle
        except UnavailableError:
            return
        working = served.channels.keys() - served.problems().keys()
        lost = {name: reason for name, reason in bundle.problems().items() if name in working}
        if lost:
            raise UnavailableError("; ".join(f"channel {name} is off: {reason}" for name, reason in lost.items()))

    def _refuse(self, current: Current | None, reason: str) -> bool:
        """Remember the reason and log it when it is new; return whether it is."""
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
        """Return a function to call after each MiB.

        It leaves half of the core to others, and stops the work when CURRENT names another version.
        """
        since = looked = time.monotonic()

        def pause() -> None:
            nonlocal since, looked
            now = time.monotonic()
            if now - since >= _LEAST_PAUSE_S:  # a wait after each of many small files takes longer than to read them
                if self._stopping.wait(now - since):
                    raise _Superseded
                since = now = time.monotonic()
            if now - looked >= self._settings.follow_interval_s:
                looked = now
                try:
                    named = self._root.read_current()
                except UnavailableError:
                    return
                if named != current:
                    raise _Superseded

        return pause


class _Superseded(Exception):
    """Raised when CURRENT names another version, or the server stops, so that the current work is useless."""


def _part(name: str) -> str:
    """Return the part of the service that a file belongs to; "" when requests never read it."""
    for leg in DENSE_LEGS:
        own = name.startswith(f"{leg}.") and name.endswith("index")
        if own or name.startswith((f"tables/{embeddings_table(leg)}.", f"encoder{leg_suffix(leg)}/")):
            return leg
    if name.startswith(("bm25/", "warp/", "splade/")):
        return name.partition("/")[0]
    return "catalog" if is_read_by_requests(name) else ""
