"""Generations of a fleet in object storage: read, put, and made current."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from codequarry.pipelines.publish.remote.store import NamedBytes, RemoteStore
from codequarry.schemas.errors import (
    FormatError,
    IntegrityError,
    InvalidArgumentError,
    NoBundleError,
    NotFoundError,
    PublishError,
)
from codequarry.schemas.fleet.generation import (
    CURRENT_PATH,
    FOLDER,
    MAX_GENERATION_BYTES,
    FleetCurrent,
    FleetManifest,
    generation_from_json,
    generation_number,
    generation_path,
    generation_to_json,
)
from codequarry.schemas.settings.load import Settings

_NUMBERS_TRIED = 100
"""Numbers that generations which never became current may take."""


@dataclass(frozen=True, slots=True)
class KnownGeneration:
    """The generation that is current, and the mark by which a replacement says that it knows it."""

    manifest: FleetManifest
    sha256: str
    """Digest of its file; "" when another one stands in for a damaged one."""
    pointer: NamedBytes


@dataclass(frozen=True)
class FleetStore:
    """The place of a fleet."""

    store: RemoteStore

    @classmethod
    def open(cls, settings: Settings, *, create: bool = False) -> FleetStore:
        """Open the place of the settings.

        Args:
            settings: Settings with the place.
            create: Make the folder of a file URL.

        Returns:
            The place; nothing is asked of it yet.

        Raises:
            InvalidArgumentError: The settings name none, or it is no place in object storage.
            MissingExtraError: The library for object storage is not installed.
        """
        if not settings.fleet.url:
            raise InvalidArgumentError(
                "the settings do not say where the fleet lives",
                suggestion='write url = "s3://BUCKET/PREFIX" or "file:///FOLDER" below [fleet] in the settings file',
            )
        return cls(RemoteStore.open(settings.fleet.url, create=create))

    def read_current(self) -> KnownGeneration | None:
        """Read the generation that is current.

        Returns:
            The generation; None when there is none yet.

        Raises:
            IntegrityError: The pointer or the generation is damaged.
            FormatError: A program with another format wrote the generation.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        pointer = self.store.read_bytes(CURRENT_PATH)
        if pointer is None:
            return None
        current = FleetCurrent.parse(pointer.raw)
        if current is None:
            raise IntegrityError(
                f"{self.store.url}/{CURRENT_PATH} holds something else ({len(pointer.raw)} bytes), "
                "expected '<generation> <sha256>'",
                suggestion="`codequarry fleet rollback NUMBER` puts a sound generation back",
            )
        return KnownGeneration(self.read_generation(current.generation, current.sha256), current.sha256, pointer)

    def require_current(self, instead: int = 0) -> KnownGeneration:
        """Read the generation that is current, of which there has to be one.

        Args:
            instead: Generation that is taken, as if its number were the highest, when the current one is damaged; 0 for
                none.

        Returns:
            The generation.

        Raises:
            NoBundleError: There is none.
            IntegrityError: As `read_current`, and there is no other to take.
            FormatError: As `read_current`, and there is no other to take.
            NotFoundError: There is no generation to take.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        try:
            known = self.read_current()
        except (IntegrityError, FormatError, NotFoundError):
            pointer = self.store.read_bytes(CURRENT_PATH)
            if not instead or pointer is None:
                raise
            sound = self.read_generation(instead)
            return KnownGeneration(sound.model_copy(update={"generation": max(self.generations())}), "", pointer)
        if known is None:
            raise NoBundleError(
                f"no fleet lives at {self.store.url} yet", suggestion="run `codequarry fleet build` first"
            )
        return known

    def read_generation(self, number: int, sha256: str = "") -> FleetManifest:
        """Read a generation.

        Args:
            number: Its number.
            sha256: Digest that its file must have; "" for any.

        Returns:
            The generation.

        Raises:
            NotFoundError: There is no such generation.
            IntegrityError: It is damaged, or another one.
            FormatError: A program with another format wrote it.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        found = self.store.read_bytes(generation_path(number), at_most=MAX_GENERATION_BYTES)
        if found is None:
            raise NotFoundError(
                f"{self.store.url} has no generation {number}",
                suggestion="`codequarry fleet status --generations` lists those that are kept",
            )
        digest = hashlib.sha256(found.raw).hexdigest()
        if sha256 and digest != sha256:
            raise IntegrityError(
                f"generation {number} at {self.store.url} has sha256 {digest[:12]}…, expected {sha256[:12]}…",
                suggestion="see who changed it; `codequarry fleet rollback NUMBER` puts another one back",
            )
        manifest = generation_from_json(found.raw)
        if manifest.generation != number:
            raise IntegrityError(
                f"the file of generation {number} at {self.store.url} is that of {manifest.generation}",
                suggestion="see who put it there",
            )
        return manifest

    def generations(self) -> dict[int, datetime]:
        """Return when each generation was put, by number; raises as `RemoteStore.versions`."""
        listed = ((generation_number(each.path), each.modified) for each in self.store.list_objects(FOLDER))
        return dict(sorted((number, modified) for number, modified in listed if number is not None))

    def make_current(
        self, manifest: FleetManifest, known: KnownGeneration | None, versions: Iterable[str]
    ) -> FleetManifest | None:
        """Put a generation and let the fleet's CURRENT name it, if that is still what is known of it.

        Args:
            manifest: The generation; a number that is taken is replaced by the next free one.
            known: The generation that was current when this one was made; None when there was none.
            versions: Versions that were put for it, which have to be there still.

        Returns:
            The generation that is current now; None when somebody else made another one current meanwhile.

        Raises:
            PublishError: A version vanished, or no number is free.
            RemoteError: The store does not answer: the generation may be current or not.
            UnavailableError: It refuses.
        """
        for number in range(manifest.generation, manifest.generation + _NUMBERS_TRIED):
            manifest = manifest.model_copy(update={"generation": number})
            raw = generation_to_json(manifest)
            if self.store.put_new(generation_path(number), raw):
                break
            if self.store.read_bytes(CURRENT_PATH) != (known.pointer if known is not None else None):
                return None
        else:
            raise PublishError(
                f"{self.store.url} has {_NUMBERS_TRIED} generations that never became current",
                suggestion="see who builds there; old ones go after a day",
            )
        for version in versions:  # a retention that looked before the generation was there may have removed one
            try:
                self.store.read_manifest(version)
            except NotFoundError as error:
                raise PublishError(
                    f"version {version} vanished from {self.store.url} as generation {number} was put",
                    suggestion="build again; it is put anew",
                ) from error
        line = FleetCurrent(number, hashlib.sha256(raw).hexdigest()).line()
        if self.store.replace_bytes(CURRENT_PATH, line, known.pointer if known is not None else None):
            return manifest
        self.store.delete_paths([generation_path(number)])  # nobody can name it
        return None


def time_now() -> str:
    """Return the current second as manifests write it."""
    return f"{datetime.now(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"
