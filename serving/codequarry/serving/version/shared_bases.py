"""Complete versions that are open, shared by the delta versions over them and by what serves one of them itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths, Current
from codequarry.schemas.bundle.manifest import StackEntry
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.files.integrity import file_sha256, verify

if TYPE_CHECKING:
    from codequarry.serving.version.open import Bundle

Place = tuple[Path, str]
"""Folder of a version, and sha256 of its manifest."""


@dataclass(eq=False)
class _OpenBase:
    """A complete version that is open, and who uses it."""

    bundle: ReferenceType[Bundle]
    """Versions over it hold it; its opener may drop it without closing it."""
    key: tuple[Path, str, str]
    """Folder of the versions, sha256 of the manifest, and settings."""
    channels: frozenset[str]
    """Channels that it was opened with."""
    owned: bool
    """Somebody opened it for itself, and has not closed it."""
    over: int = 0
    """Open versions over it."""


_STACKED = frozenset((*DENSE_LEGS, "warp", "splade"))
"""Channels of a delta version that ask those of its base."""


class SharedBases:
    """Open complete versions, so that all delta versions over one read the same, and the one that is served itself."""

    def __init__(self, open_paths: Callable[..., Bundle]) -> None:
        """Share nothing yet.

        Args:
            open_paths: Opens a version, see `Bundle.open_paths`.
        """
        self._open_paths = open_paths
        self._lock = threading.Lock()
        self._whole: set[Place] = set()
        """Versions whose every byte this process has compared: no base is read twice."""
        self._damaged: set[Place] = set()
        """Versions in which, or in a version over which, damage was found since."""
        self._open: list[_OpenBase] = []

    def offer(self, bundle: Bundle, settings: ServingSettings, channels: Iterable[str]) -> None:
        """Let delta versions use a complete version that is open; `is_free` tells when it may be closed.

        Args:
            bundle: The version.
            settings: Settings that it was opened with.
            channels: Channels that it was opened with.
        """
        key = _key(bundle.paths, bundle.current.manifest_sha256, settings)
        with self._lock:
            self._open = [each for each in self._open if each.bundle() is not None]
            self._open.append(_OpenBase(ref(bundle), key, frozenset(channels), owned=True))

    def lease(
        self,
        paths: BundlePaths,
        stack: StackEntry,
        settings: ServingSettings,
        channels: Iterable[str],
        after_block: Callable[[], None] | None,
    ) -> Bundle:
        """Return the open base of a delta version, opened when nobody has it open.

        Args:
            paths: Paths of the delta version; its base lies beside it.
            stack: Entry of the base in its manifest.
            settings: See `Bundle.open_current`.
            channels: See `Bundle.open_current`.
            after_block: See `Bundle.open_version`.

        Returns:
            The base; `release` gives it back.

        Raises:
            IntegrityError: The base is missing, damaged, or not the one that the delta was made for.
        """
        wanted = frozenset(name for name in channels if name in _STACKED)
        below = BundlePaths(paths.path.parent / stack.base)
        place = below.path, stack.base_sha256
        key = _key(paths, stack.base_sha256, settings)
        try:
            with self._lock:
                after_block = None if place in self._whole else self.reading(place, after_block)
                base = self._use_open(key, wanted)
                if base is None:
                    named = Current(stack.base, stack.base_sha256)
                    base = self._open_paths(below, named, settings, channels=wanted, after_block=after_block)
                    self._open.append(_OpenBase(ref(base), key, wanted, owned=False, over=1))
                    return base
            if after_block is not None:
                self._read(base, after_block)
            return base
        except IntegrityError as error:
            raise IntegrityError(
                f"version {paths.path.name} lies over {stack.base}, which cannot be opened: {error.message}",
                suggestion="roll back to a complete version, or index again with `--full`",
            ) from error

    def release(self, base: Bundle) -> None:
        """Give a base back; it is closed when nobody uses it any more."""
        with self._lock:
            known = self._entry_of(base)
            if known is None:
                return
            known.over -= 1
            unused = self._forget_unused(known)
        if unused:
            base.close_now()

    def is_free(self, bundle: Bundle) -> bool:
        """Note that the opener of a version has closed it, and return whether no version lies over it."""
        with self._lock:
            known = self._entry_of(bundle)
            if known is None:
                return True
            known.owned = False
            return self._forget_unused(known)

    def trust(self, place: Place) -> None:
        """Remember that every byte of a version was compared."""
        self._damaged.discard(place)
        self._whole.add(place)

    def distrust(self, places: Iterable[Place]) -> None:
        """Let every byte of versions be compared again before anything is opened from them."""
        for place in places:
            self._damaged.add(place)
            self._whole.discard(place)

    def reading(self, place: Place, after_block: Callable[[], None] | None) -> Callable[[], None] | None:
        """Return what to call after each block of a version that is opened; None when it need not be read."""
        return _go_on if after_block is None and place in self._damaged else after_block

    def _use_open(self, key: tuple[Path, str, str], wanted: frozenset[str]) -> Bundle | None:
        """Return an open version with these channels, which is then used once more."""
        for known in self._open:
            base = known.bundle()
            if base is not None and known.key == key and wanted <= known.channels:
                known.over += 1
                return base
        return None

    def _read(self, base: Bundle, after_block: Callable[[], None]) -> None:
        """Compare every byte of an open version with its manifest; give the version back when that fails."""
        try:
            verify(base.paths, base.manifest, deep=True, sha256=partial(file_sha256, after_block=after_block))
        except BaseException:
            self.release(base)
            raise
        self.trust(base.place)

    def _entry_of(self, bundle: Bundle) -> _OpenBase | None:
        return next((each for each in self._open if each.bundle() is bundle), None)

    def _forget_unused(self, known: _OpenBase) -> bool:
        if known.owned or known.over:
            return False
        self._open.remove(known)
        return True


def _go_on() -> None:
    """Read on without a pause."""


def _key(paths: BundlePaths, manifest_sha256: str, settings: ServingSettings) -> tuple[Path, str, str]:
    return paths.path.parent, manifest_sha256, settings.model_dump_json()
