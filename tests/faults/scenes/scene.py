"""A bundle root on the brink of a publish, small enough to be copied for every fault.

Versions OLDEST and OLD are published, OLD is CURRENT, NEW is staged and verified. Retention keeps two, so that
publishing NEW removes OLDEST. Versions share byte-equal files, so that hard links are made.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from codequarry.pipelines.gates.verify import Verified
from codequarry.pipelines.publish.publish import Published, publish_verified
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, Settings
from codequarry.serving.files.integrity import base_of, file_sha256, is_whole, read_manifest, verify
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

OLDEST, OLD, NEW = ("20250101T000000Z-0000000a", "20260101T000000Z-0000000b", "20260601T000000Z-0000000c")
STAGED = ".staging-scene"


@dataclass(frozen=True)
class Scene:
    """A root and the settings that publish to it."""

    base: Path

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.base / "bundles")

    @property
    def settings(self) -> Settings:
        return Settings(
            paths=PathsSettings(store=self.base / "store", work=self.base / "work"),
            bundle=BundleSettings(root=self.root.path, keep_versions=2),
        )

    def copy(self, base: Path) -> Self:
        """The same scene elsewhere; no file is shared."""
        shutil.copytree(self.base, base)
        return type(self)(base)

    @property
    def verified(self) -> Verified:
        """NEW, as the verify stage returns it."""
        staged = self.root.versions / STAGED
        manifest = staged / "manifest.json"
        return Verified(NEW, staged, file_sha256(manifest) if manifest.is_file() else "", ())

    def publish(self) -> Published:
        """Publish NEW; all versions of the factory say that they have the same contents."""
        return publish_verified(self.verified, self.settings.bundle, force=True)

    def current(self) -> str:
        """What a reader gets, after it opened and read every byte of it."""
        bundle = Bundle.open_current(self.root.path, channels=())
        bundle.close()
        self.read_every_byte(Current(bundle.manifest.version, self.root.read_current().manifest_sha256))
        return bundle.manifest.version

    def read_every_byte(self, named: Current) -> None:
        """Compare a version, and its base where it has one, with what was promised of it."""
        paths = self.root.version(named.version)
        manifest = read_manifest(paths, expected_sha256=named.manifest_sha256)
        verify(paths, manifest, deep=True)
        if manifest.stack is not None:
            verify(self.root.version(manifest.stack.base), base_of(self.root, manifest), deep=True)

    def check_current(self, *, allowed: tuple[str, ...]) -> str:
        """What a reader gets, which must be one of these; as readers do, CURRENT is read again when it moved on."""
        for _ in range(3):
            with suppress(IntegrityError):
                found = self.current()
                assert found in allowed, f"CURRENT names {found}"
                return found
        raise AssertionError("no reader could open the current version")

    def check(self, *, allowed: tuple[str, ...]) -> str:
        """The current version, after checking what a fault may never break: it and every listed version is whole."""
        found = self.current()
        assert found in allowed, f"CURRENT names {found}"
        broken = [name for name in self.root.version_names() if not is_whole(self.root.version(name))]
        assert broken == [], f"listed and not whole: {broken}"
        return found

    def litter(self) -> list[str]:
        """Hidden names that a clean root does not have."""
        names = [path.name for folder in (self.root.path, self.root.versions) for path in folder.glob(".*")]
        return sorted(set(names) - {".publish.lock"})


def build_scene(base: Path, *, first: bool = False) -> Scene:
    """Write the scene. first: nothing is published yet."""
    scene = Scene(base)
    for version, pieces in () if first else ((OLDEST, PIECES[:7]), (OLD, PIECES[:8])):
        write_bundle(scene.root.path, pieces, version=version)
    elsewhere = base / "elsewhere"
    paths = write_bundle(elsewhere, PIECES, version=NEW)
    scene.root.versions.mkdir(parents=True, exist_ok=True)
    paths.path.rename(scene.root.versions / STAGED)
    shutil.rmtree(elsewhere)
    return scene
