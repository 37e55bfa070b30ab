"""Bundle roots on the brink of publishing a delta version: as CURRENT, or as the version of a further ref.

The versions are those of a run over a small repository, under the names of the other scenes: BASE is complete; OLDEST,
OLD and NEW lie over it, each with one changed file. Encoders, by far their largest part, are left out.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codequarry.pipelines.publish.publish import Published
from codequarry.pipelines.publish.ref_files import publish_ref
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.stack.build import index_changes
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import to_json
from codequarry.schemas.bundle.refs import RefName, read_ref, ref_file
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    RetrievalSettings,
    Settings,
    SourcesSettings,
)
from codequarry.serving.files.integrity import file_sha256, read_manifest
from codequarry.serving.version.open import Bundle
from tests.faults.scenes.scene import NEW, OLD, OLDEST, STAGED, Scene
from tests.pipelines.repositories import commit

BASE = "20240101T000000Z-0000000d"
REF = RefName("app", "feature/x")


@dataclass(frozen=True)
class Stacked(Scene):
    """A root whose CURRENT is the delta version OLD; NEW is staged and lies over the same base."""


@dataclass(frozen=True)
class Naming(Stacked):
    """The same versions, where CURRENT is BASE for good, and a ref names OLD until NEW is published for it."""

    def publish(self) -> Published:
        """Publish NEW as the version of the ref."""
        return publish_ref(self.verified, self.settings.bundle, REF)

    def current(self) -> str:
        """What a reader of the ref gets; a reader of CURRENT gets BASE whatever happens."""
        assert super().current() == BASE
        named = read_ref(self.root, REF)
        assert named is not None, "the ref names nothing"
        Bundle.open_version(self.root, named, channels=()).close()
        self.read_every_byte(named)
        return named.version


def line_of(paths: BundlePaths) -> Current:
    """What CURRENT holds when it names a version."""
    return Current(paths.path.name, file_sha256(paths.manifest))


def _renamed(paths: BundlePaths, target: Path, name: str, **changes: Any) -> str:
    """Give a version another name and no encoder. Returns the sha256 of its manifest."""
    manifest = read_manifest(paths)
    shutil.rmtree(paths.encoder)
    files = tuple(entry for entry in manifest.files if not entry.path.startswith("encoder/"))
    changed = manifest.model_copy(update={"version": name, "sequence": 0, "files": files, **changes})
    paths.manifest.write_bytes(to_json(changed))
    paths.path.rename(target)
    return file_sha256(target / paths.manifest.name)


def build_stacked(base: Path) -> Stacked:
    """Write the scene whose CURRENT is a delta version."""
    scene, made, repo = Stacked(base), base / "made", base / "app"
    settings = Settings(
        paths=PathsSettings(store=base / "store", work=base / "work"),
        bundle=BundleSettings(root=made, keep_versions=9, delta_share=1),
        sources=SourcesSettings(repositories=(RepositorySettings(path=repo),)),
        retrieval=RetrievalSettings(enabled=False),
    )
    commit(repo, {f"pkg/mod{n}.py": f"def work{n}(x):\n    return x + {n}\n" for n in range(6)})
    reports = [index_repositories(settings)]
    for n in range(3):
        (repo / f"pkg/mod{n}.py").write_text(f"def other{n}(x):\n    return x - {n}\n")
        report = index_changes(settings)
        assert isinstance(report, IndexReport), report
        reports.append(report)
    source, versions = BundleRoot(made), scene.root.versions
    versions.mkdir(parents=True)
    complete, *deltas = (source.version(report.manifest.version) for report in reports)
    sha256 = _renamed(complete, versions / BASE, BASE)
    for paths, name in zip(deltas, (OLDEST, OLD, NEW), strict=True):
        stack = read_manifest(paths).stack
        assert stack is not None
        over = stack.model_copy(update={"base": BASE, "base_sha256": sha256})
        _renamed(paths, versions / (STAGED if name == NEW else name), name, stack=over)
    scene.root.current.write_text(line_of(scene.root.version(OLD)).line())
    for folder in (made, repo, base / "store", base / "work"):
        shutil.rmtree(folder)
    return scene


def build_naming(stacked: Stacked, base: Path) -> Naming:
    """Make the scene in which NEW is published for a ref."""
    scene = Naming(stacked.copy(base).base)
    scene.root.current.write_text(line_of(scene.root.version(BASE)).line())
    scene.root.refs.mkdir()
    ref_file(scene.root, REF).write_text(line_of(scene.root.version(OLD)).line())
    return scene


def build_leaving(complete: Scene, stacked: Stacked, base: Path) -> Scene:
    """Make the scene in which a complete version follows another: BASE and OLDEST, which lies over it, are removed."""
    scene = complete.copy(base)
    for name in (BASE, OLDEST):
        shutil.rmtree(scene.root.version(name).path, ignore_errors=True)
        shutil.copytree(stacked.root.version(name).path, scene.root.version(name).path)
    return scene
