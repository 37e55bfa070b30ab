"""A bundle root on the brink of an import: OLDEST and OLD are published, OLD is CURRENT, an archive holds NEW.

Publishing is importing here, so that the same faults can be thrown at it. Versions of the factory hold less than the
gate asks of contents; the gate has tests of its own.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.publish.archive.import_ import import_version
from codequarry.pipelines.publish.archive.write import export_version
from codequarry.pipelines.publish.arrival import Imported
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.load import ChecksSettings
from codequarry.serving.files.integrity import file_sha256
from tests.faults.scenes.scene import NEW, STAGED, Scene


def anything(_paths: BundlePaths, _manifest: Manifest, _limits: ChecksSettings) -> None:
    """A gate that lets every version pass."""


@dataclass(frozen=True)
class Moving(Scene):
    """A root, and an archive of a version that it does not have."""

    @property
    def archive(self) -> Path:
        return self.base / "new.tar"

    def publish(self) -> Imported:
        """Import NEW."""
        return import_version(self.archive, self.settings, check=anything)


@dataclass(frozen=True)
class Adding(Moving):
    """The same, where the current version stays current."""

    def publish(self) -> Imported:
        """Import NEW beside OLD."""
        return import_version(self.archive, self.settings, keep_current=True, check=anything)


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file below a folder but locks: its inode, so that a rewritten one shows, and its sha256."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, file_sha256(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix != ".lock"
    }


def flip(file: Path) -> None:
    """Change the bit in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def build_moving(template: Scene, base: Path, *, into: Scene | None = None, without_base: bool = False) -> Moving:
    """Export NEW of a scene, and leave it out of the root.

    into: the scene whose root it is to be imported to, where it is another.
    without_base: the archive of a delta version leaves its base out.
    """
    elsewhere = template.copy(base.with_name(f"{base.name}-elsewhere"))
    elsewhere.publish()
    moving = Moving(base)
    shutil.copytree((into or template).root.path, moving.root.path)
    shutil.rmtree(moving.root.versions / STAGED)
    export_version(elsewhere.root, moving.archive, NEW, without_base=without_base)
    shutil.rmtree(elsewhere.base)
    return moving
