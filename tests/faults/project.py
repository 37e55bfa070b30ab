"""A real project on the brink of an index run, small enough to be copied for every fault.

Two versions of one repository, a folder, are published. It has changed since, and a second one, behind a URL, was
added. Retention keeps two versions, so that the next publish removes one.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from codequarry.pipelines.cli.root import build_app
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.repositories import commit

SETTINGS = """\
[paths]
store = "store"
work = "work"

[sources]
repositories = [{repositories}]

[bundle]
root = "bundles"
keep_versions = 2
"""
PYTHON = '''
def {name}(count: int) -> int:
    """Multiply by {factor}."""
    return {factor} * count


class {name}_box:
    def open(self) -> str:
        return "{name}"
'''


@dataclass(frozen=True)
class Project:
    """A folder with settings, repositories, work folder, store and bundles."""

    base: Path

    @property
    def settings_file(self) -> Path:
        return self.base / "dagster_project.toml"

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.base / "bundles")

    @property
    def written(self) -> tuple[Path, ...]:
        """The folders a run writes to."""
        return (self.base / "bundles", self.base / "work", self.base / "store")

    def copy(self, base: Path) -> Project:
        """The same project elsewhere; only the repository behind the URL is shared."""
        shutil.copytree(self.base, base, symlinks=True)
        return Project(base)

    def command(self, *arguments: str) -> list[str]:
        """The command line as a person runs it."""
        return [sys.executable, "-m", "codequarry.pipelines.cli", *arguments, "--settings", str(self.settings_file)]

    def run(self, *arguments: str) -> tuple[int, str]:
        """The same in this process, which has the libraries loaded: (exit code, output or what was raised)."""
        result = CliRunner().invoke(build_app(), [*arguments, "--settings", str(self.settings_file)])
        return result.exit_code, result.output + (repr(result.exception) if result.exit_code else "")

    def change(self, name: str) -> None:
        """Add a file to the repository that is a folder."""
        commit(self.base / "app", {f"{name}.py": PYTHON.format(name=name, factor=5)})

    def check_current(self) -> bytes:
        """CURRENT, after every byte of the version it names was read."""
        code, said = self.run("verify", "--deep")
        assert code == 0, said
        return self.root.current.read_bytes()

    def digest(self) -> str:
        """What the current version holds, whatever its name."""
        return read_manifest(self.root.version(self.root.read_current().version)).digest

    def check_healthy(self) -> None:
        """Nothing is wrong with any version, and nothing is left of runs that died."""
        code, said = self.run("doctor", "--json")
        findings = json.loads(said.partition("SystemExit")[0])["findings"] if said.startswith("{") else said
        assert code == 0, [row for row in findings if row["level"] not in ("ok", "note")]
        assert self.litter() == []

    def litter(self) -> list[str]:
        """What a project at rest does not have: hidden names of the bundle root, temporary files of work and store."""
        places = (self.root.path, self.root.versions)
        hidden = {path.name for folder in places for path in folder.glob(".*")} - {".publish.lock"}
        for folder in self.written[1:]:
            hidden |= {path.name for pattern in (".*.new", ".new-*") for path in folder.rglob(pattern)}
        return sorted(hidden)


def build_project(base: Path) -> Project:
    """Make the project. Its two versions are published by the command line."""
    project, remote = Project(base / "project"), base / "remote"
    repositories = ['{ path = "app" }', f'{{ name = "lib", url = "file://{remote}" }}']
    project.base.mkdir(parents=True)
    project.settings_file.write_text(SETTINGS.format(repositories=repositories[0]), encoding="utf-8")
    for name in ("one", "two"):
        project.change(name)
        code, said = project.run("index")
        assert code == 0, said
    assert len(project.root.version_names()) == 2
    commit(remote, {"lib.py": PYTHON.format(name="lib", factor=3), "NOTES.md": "# lib\n\nIt helps.\n"})
    project.settings_file.write_text(SETTINGS.format(repositories=", ".join(repositories)), encoding="utf-8")
    project.change("three")
    return project
