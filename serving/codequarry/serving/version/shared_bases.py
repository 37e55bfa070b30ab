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


class SharedBases:
    """Open complete versions, so that all delta versions over one read the same, and the one that is served itself."""

    def __init__(self, open_paths: Callable[..., Bundle]) -> None:
        """Share nothing yet.

        Args:
            open_paths: Opens a version, see `Bundle.open_paths`.
        """
        self._open_paths = open_paths
        self._lock = threading.Lock()
        self.read: set[str] = set()
        """Manifests, by sha256, of versions whose every byte this process has compared, and which no damage was found
        in since: no base is read twice."""
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
        wanted = frozenset(name for name in channels if name in DENSE_LEGS)
        key = _key(paths, stack.base_sha256, settings)
        try:
            with self._lock:
                if stack.base_sha256 in self.read:
                    after_block = None
                base = self._use_open(key, wanted)
                if base is None:
                    named, below = Current(stack.base, stack.base_sha256), BundlePaths(paths.path.parent / stack.base)
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
        self.read.add(base.current.manifest_sha256)

    def _entry_of(self, bundle: Bundle) -> _OpenBase | None:
        return next((each for each in self._open if each.bundle() is bundle), None)

    def _forget_unused(self, known: _OpenBase) -> bool:
        if known.owned or known.over:
            return False
        self._open.remove(known)
        return True


def _key(paths: BundlePaths, manifest_sha256: str, settings: ServingSettings) -> tuple[Path, str, str]:
    return paths.path.parent, manifest_sha256, settings.model_dump_json()
