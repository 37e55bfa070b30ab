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
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.refs import read_refs
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.repositories import commit, git

SETTINGS = """\
[paths]
store = "store"
work = "work"

[sources]
repositories = [{repositories}]

[bundle]
root = "bundles"
keep_versions = 2
delta_share = 1
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
    arguments: tuple[str, ...] = ("index",)
    """Of the run that the project is on the brink of; `{base}` stands for its folder."""

    @property
    def indexing(self) -> tuple[str, ...]:
        """Arguments of that run."""
        return tuple(argument.format(base=self.base) for argument in self.arguments)

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
        return Project(base, self.arguments)

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

    def check_current(self) -> list[Current]:
        """What readers get, after every byte of it was read."""
        code, said = self.run("verify", "--deep")
        assert code == 0, said
        return self.served()

    def served(self) -> list[Current]:
        """The versions that readers get: that of CURRENT, then those of refs."""
        return [self.root.read_current(), *(current for _, current in sorted(read_refs(self.root).items()))]

    def digest(self) -> str:
        """What these versions hold, whatever their names."""
        return " ".join(read_manifest(self.root.version(each.version)).digest for each in self.served())

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


def build_layered(base: Path, *, ref: bool) -> Project:
    """Make a project on the brink of a delta version: as CURRENT, or of a ref that a delta version is there for."""
    again = ("index", "{base}/app", "{base}/app#feature") if ref else ("index", "--delta")
    project = Project(base / "project", again)
    project.base.mkdir(parents=True)
    project.settings_file.write_text(SETTINGS.format(repositories='{ path = "app" }'), encoding="utf-8")
    project.change("one")
    runs = [("index",), project.indexing]
    for number, arguments in enumerate(runs):
        code, said = project.run(*arguments)
        assert code == 0, said
        if ref:
            git(project.base / "app", "checkout", "-q", *(() if number else ("-b",)), "feature")
        project.change(f"more{number}")
        if ref:
            git(project.base / "app", "checkout", "-q", "main")
    assert any(read_manifest(project.root.version(name)).stack for name in project.root.version_names())
    return project
