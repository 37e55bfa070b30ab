"""Diagnosis of a bundle root: checks everything that can be wrong, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from codequarry.schemas.bundle.layout import IMPORT_PREFIX, REMOVED_PREFIX, STAGING_PREFIX, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.refs import list_refs, read_ref
from codequarry.schemas.errors import CodequarryError, NoBundleError, ResourcesError
from codequarry.schemas.install_hints import REPLACEMENTS, install_hint
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.trust.programs import find_program
from codequarry.schemas.wording import counted
from codequarry.serving.files.compatibility import differences
from codequarry.serving.files.disk import room_for_version
from codequarry.serving.files.integrity import read_manifest, verify
from codequarry.serving.files.lease import sole_user
from codequarry.serving.version.file_checks import check_version

Level = Literal["ok", "note", "warning", "error"]
SEVERITY: dict[Level, int] = {"ok": 0, "note": 0, "warning": 1, "error": 2}
"""Exit code by the worst level found."""

_LIBRARIES = ("duckdb", "faiss-cpu", "fastmcp", "numpy", "pyarrow", "tantivy", "tokenizers")
_OPTIONAL = {
    f"needed to index: {install_hint('build')}": ("dagster", "pathspec", "tree-sitter"),
    f"needed for MiniLM: {install_hint('models')}": ("onnx", "onnxruntime"),
    f"needed for models by their names and sparse ones without an ONNX graph: {install_hint('transformers')}": (
        "torch",
        "transformers",
    ),
    f"needed for late interaction: {install_hint('warp')}": ("numba", "onnxruntime"),
}
_PROGRAMS = {"git": "sources with git", "scip-python": "Python by SCIP", "scip-typescript": "TypeScript by SCIP"}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Result of one check."""

    area: str
    name: str
    level: Level
    found: str
    expected: str = ""
    suggestion: str = ""


def examine(settings: Settings) -> Iterator[Diagnosis]:
    """Check settings, CURRENT, versions, leftovers, disk and tools, one finding after another."""
    root = BundleRoot(settings.bundle.root)
    yield Diagnosis("settings", "settings", "ok", "every key is known and valid")
    current: Current | None = None
    try:
        current = root.read_current()
        yield Diagnosis("current", "CURRENT", "ok", current.version)
    except NoBundleError as error:
        level: Level = "error" if root.version_names() else "warning"
        yield _problem("current", "CURRENT", error, level)
    except ResourcesError as error:
        yield _unknown("current", "CURRENT", error)
    except CodequarryError as error:
        yield _problem("current", "CURRENT", error)
    if current is not None and current.version not in root.version_names():
        yield Diagnosis(
            "current", "version of CURRENT", "error", f"{current.version} is not there", "a version",
            "run `codequarry rollback` with one of `codequarry versions`",
        )  # fmt: skip
    named = {} if current is None else {current.version: current}
    yield from _refs(root, named)
    for name in root.version_names():
        yield from _version(root, name, named.get(name))
    yield from _leftovers(root, current)
    yield from _disk(root)
    yield from _tools([each.path for each in settings.sources.repositories if each.path is not None])


def _refs(root: BundleRoot, named: dict[str, Current]) -> Iterator[Diagnosis]:
    """Check the file of every further ref, and note the version that it names."""
    try:
        names = list_refs(root)
    except CodequarryError as error:
        yield _problem("refs", "refs", error)
        return
    for name in names:
        try:
            line = read_ref(root, name)
        except ResourcesError as error:
            yield _unknown("refs", str(name), error)
            continue
        except CodequarryError as error:
            yield _problem("refs", str(name), error)
            continue
        if line is None:
            continue
        named.setdefault(line.version, line)
        if line.version in root.version_names():
            yield Diagnosis("refs", str(name), "ok", line.version)
        else:
            yield Diagnosis(
                "refs", str(name), "error", f"{line.version} is not there", "a version", "run `codequarry index`"
            )


def _version(root: BundleRoot, name: str, current: Current | None) -> Iterator[Diagnosis]:
    """Check every byte of a version; for the current one also whether its files are consistent with each other."""
    paths = root.version(name)
    try:
        manifest = read_manifest(paths, expected_sha256=current.manifest_sha256 if current else None)
        verify(paths, manifest, deep=True)
    except ResourcesError as error:
        yield _unknown(name, "files", error)
        return
    except CodequarryError as error:
        yield _problem(name, "files", error, "error" if current else "warning")
        return
    except OSError as error:
        yield Diagnosis(name, "files", "error", f"cannot be read: {error.strerror}", "readable files", "check the disk")
        return
    yield Diagnosis(name, "files", "ok", f"{counted(len(manifest.files), 'file')}, every sha256")
    for each in manifest.accepted:
        yield Diagnosis(name, each.check, "note", f"{each.found}, accepted: {each.reason}", each.expected)
    if current is not None:
        yield from _contents(root, manifest)


def _contents(root: BundleRoot, manifest: Manifest) -> Iterator[Diagnosis]:
    name = manifest.version
    unlike = differences(manifest)
    if unlike:
        yield Diagnosis(
            name, "compatibility", "warning", f"built otherwise: {', '.join(unlike)}", "as this program builds",
            "index again with this program: `codequarry index --force`",
        )  # fmt: skip
    else:
        yield Diagnosis(name, "compatibility", "ok", "built as this program builds")
    try:
        checks = check_version(root.version(name), manifest)
    except ResourcesError as error:
        yield _unknown(name, "contents", error)
        return
    except CodequarryError as error:
        # Skip tables of other programs.
        yield _problem(name, "contents", error, "warning" if unlike else "error")
        return
    for check in checks:
        if check.passed:
            yield Diagnosis(name, check.name, "ok", check.found)
        else:
            yield Diagnosis(
                name, check.name, "warning" if unlike else "error", check.found, check.expected,
                "run `codequarry rollback`, then index again",
            )  # fmt: skip


def _leftovers(root: BundleRoot, current: Current | None) -> Iterator[Diagnosis]:
    found = False
    begun = root.read_publishing()
    if begun is not None and not _in_use(root.lock):
        found = True
        done = current is not None and begun.version == current.version
        what = "was published, not acknowledged" if done else "was cut off before CURRENT named it"
        yield _leftover(f"the publish of {begun.version} {what}")
    for folder in sorted(root.versions.glob(f"{REMOVED_PREFIX}*")):
        found = True
        yield _leftover(f"{folder.name}, half removed")
    for folder in sorted(root.versions.glob(f"{STAGING_PREFIX}*")):
        if "." in folder.name[1:]:
            continue  # written beside a staging folder, and removed with it
        found = True
        if _in_use(folder):
            yield Diagnosis("leftovers", "versions/", "ok", f"{folder.name} is being written")
        elif (folder / "manifest.json").is_file() and not folder.name.startswith(IMPORT_PREFIX):
            yield Diagnosis("leftovers", "versions/", "note", f"{folder.name} waits to be published, for a day at most")
        else:
            yield _leftover(f"{folder.name}, left by a killed run")
    if not found:
        yield Diagnosis("leftovers", "versions/", "ok", "none")


def _leftover(what: str) -> Diagnosis:
    return Diagnosis("leftovers", "versions/", "warning", what, "nothing", "run `codequarry prune`")


def _in_use(path: Path) -> bool:
    try:
        with sole_user(path) as alone:
            return not alone
    except PermissionError:
        return True  # it is another user's, who alone can tell
    except OSError:
        return False


def _disk(root: BundleRoot) -> Iterator[Diagnosis]:
    room = room_for_version(root)
    free, needed = f"{room.free / 1e6:,.0f} MB free", f"{room.needed / 1e6:,.0f} MB for the next version"
    if room.enough:
        yield Diagnosis("disk", "bundle root", "ok", f"{free}, {needed}")
    else:
        yield Diagnosis("disk", "bundle root", "warning", free, needed, "free disk space, or run `codequarry prune`")


def _tools(folders: list[Path]) -> Iterator[Diagnosis]:
    for name in _LIBRARIES:
        yield _library(name, "error", "install codequarry again")
    for purpose, names in _OPTIONAL.items():
        for name in names:
            yield _library(name, "note", purpose)
    for name, purpose in _PROGRAMS.items():
        if find_program(name, folders, tools=True):
            yield Diagnosis("tools", name, "ok", "found")
        else:
            yield Diagnosis("tools", name, "note", "not found", purpose)


def _library(name: str, missing: Level, suggestion: str) -> Diagnosis:
    for candidate in (name, *REPLACEMENTS.get(name, ())):
        try:
            return Diagnosis("tools", candidate, "ok", metadata.version(candidate))
        except metadata.PackageNotFoundError:
            continue
    return Diagnosis("tools", name, missing, "not installed", "installed", suggestion)


def _unknown(area: str, name: str, error: ResourcesError) -> Diagnosis:
    """Return a warning that the state could not be determined."""
    return Diagnosis(area, name, "warning", error.message, "to be looked at", error.suggestion)


def _problem(area: str, name: str, error: CodequarryError, level: Level = "error") -> Diagnosis:
    return Diagnosis(area, name, level, error.message, "", error.suggestion)
