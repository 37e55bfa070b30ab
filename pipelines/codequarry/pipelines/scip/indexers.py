"""SCIP indexers that are run where they are installed: how each is started, and which are here.

Command lines are those of the indexers' own documentation. An indexer that runs a repository's build runs its code, so
it is started only where `[scip] run_builds` allows that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from codequarry.pipelines.scip.installation import find_node
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.trust.programs import find_program, safe_path
from codequarry.serving.files.integrity import file_sha256

SETUP = "`codequarry setup scip` installs it"


@dataclass(frozen=True, slots=True)
class Indexer:
    """A program that writes a SCIP index of the folder it is started in."""

    name: str
    """Name of the executable; of those that npm has, the package is ``@sourcegraph/<name>``."""
    languages: frozenset[str]
    install: str
    """Clause that says where it comes from."""
    arguments: tuple[str, ...] = ()
    """Its arguments, with ``{index}``, ``{project}`` and ``{private}`` for the file to write, the repository's name and
    the folder of the run; empty where it can only be run beside the real build."""
    program: str = ""
    """Another program that it starts."""
    project_files: frozenset[str] | None = frozenset()
    """Names of further files that it reads; None for every file."""
    builds: bool = False
    """True when it runs the build of the repository, and so its code."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An indexer on this machine."""

    indexer: Indexer
    executable: Path
    version: str
    programs: Mapping[str, Path] = field(default_factory=dict)
    """Programs beside it that a run may start, by name."""
    search_path: str = ""
    """PATH of a run that builds; "" for one that sees ``programs`` alone."""

    @property
    def label(self) -> str:
        """Name and version, as the manifest shows them."""
        return f"{self.indexer.name} {self.version}"


PYTHON = Indexer(
    "scip-python",
    frozenset({"python"}),
    SETUP,
    # Without a version it fails outside git; without an environment it asks pip for the machine's packages.
    (
        *("index", "--project-name", "{project}", "--project-version", "."),
        *("--environment", "{private}/environment.json", "--output", "{index}", "--quiet"),
    ),
    program="node",
)
TYPESCRIPT = Indexer(
    "scip-typescript",
    frozenset({"typescript", "tsx", "javascript"}),
    SETUP,
    ("index", "--infer-tsconfig", "--no-progress-bar", "--output", "{index}"),
    program="node",
    project_files=frozenset({"package.json", "tsconfig.json", "jsconfig.json"}),
)
GO = Indexer(
    "scip-go",
    frozenset({"go"}),
    "`go install github.com/scip-code/scip-go/cmd/scip-go@latest` installs it",
    ("--module-version", ".", "--output", "{index}"),
    program="go",
    project_files=None,
)
RUBY = Indexer(
    "scip-ruby",
    frozenset({"ruby"}),
    "its releases are at https://github.com/sourcegraph/scip-ruby/releases",
    ("--index-file", "{index}", "--gem-metadata", "{project}@0", "."),
    project_files=frozenset({"Gemfile.lock", "config"}),
)
RUST = Indexer(
    "rust-analyzer",
    frozenset({"rust"}),
    "`rustup component add rust-analyzer` installs it",
    ("scip", ".", "--output", "{index}"),
    project_files=None,
    builds=True,
)
JAVA = Indexer(
    "scip-java",
    frozenset({"java", "kotlin", "scala"}),
    "`coursier bootstrap --standalone -o scip-java com.sourcegraph:scip-java_2.13:latest.release"
    " --main com.sourcegraph.scip_java.ScipJava` makes it",
    ("index", "--output", "{index}"),
    project_files=None,
    builds=True,
)
DOTNET = Indexer(
    "scip-dotnet",
    frozenset({"csharp"}),
    "`dotnet tool install --global scip-dotnet` installs it",
    ("index", "--output", "{index}"),
    project_files=None,
    builds=True,
)
CLANG = Indexer(
    "scip-clang",
    frozenset({"c", "cpp"}),
    "its releases are at https://github.com/sourcegraph/scip-clang/releases",
)
"""Its compilation database names the files of the real build by absolute paths, so it is never run over a copy."""
INDEXERS = (PYTHON, TYPESCRIPT, GO, RUBY, RUST, JAVA, DOTNET, CLANG)


def find_indexer(indexer: Indexer, settings: Settings) -> Installed | str:
    """Find an indexer that may be run, in the user's tools folder, else on PATH; never in an indexed repository.

    Args:
        indexer: The indexer.
        settings: Settings of the run.

    Returns:
        The indexer, or why it is not run and what to do, as what follows its name and a colon.
    """
    folders = indexed_folders(settings)
    given = "give its index by `codequarry index --scip FILE`"
    if not indexer.arguments:
        return f"it needs the compilation database of the build: run it there, and {given}; {indexer.install}"
    program = find_program(indexer.name, folders, tools=True)
    if program is None:
        allowed = f"; it runs the repository's build, which `[scip] run_builds` must allow, or {given}"
        missing = f"it is neither on PATH nor in the user's tools folder: {indexer.install}"
        return missing + (allowed if indexer.builds and not settings.scip.run_builds else "")
    if indexer.builds and not settings.scip.run_builds:
        return f"it runs the repository's build, so its code: allow that by `[scip] run_builds`, or {given}"
    programs: dict[str, Path] = {}
    if indexer.program:
        beside = find_node() if indexer.program == "node" else find_program(indexer.program, folders)
        if beside is not None:
            programs[indexer.program] = Path(os.path.realpath(beside))
        elif indexer.program != "node":  # a program of another name may need none
            return f"it needs `{indexer.program}`, which is not on PATH"
    executable = Path(os.path.realpath(program))
    search_path = safe_path(folders) if indexer.builds else ""
    return Installed(indexer, executable, _version(indexer, executable), MappingProxyType(programs), search_path)


def indexed_folders(settings: Settings) -> list[Path]:
    """Return the folders of this machine that are indexed."""
    return [each.path for each in settings.sources.repositories if each.path is not None]


def indexer_versions(settings: Settings) -> dict[str, str]:
    """Return the version of every indexer that a run would use; installing one makes a bundle out of date."""
    if not settings.scip.enabled:
        return {}
    found = [find_indexer(indexer, settings) for indexer in INDEXERS]
    return {each.indexer.name: each.version for each in found if isinstance(each, Installed)}


def _version(indexer: Indexer, executable: Path) -> str:
    """Return the version in the npm package, without starting it; for another program a hash of its bytes."""
    for folder in executable.parents[:4]:
        try:
            package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if package["name"].endswith(f"/{indexer.name}"):
                return str(package["version"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    status = executable.stat()
    return f"sha256-{_hash(executable, status.st_size, status.st_mtime_ns)[:12]}"


@lru_cache
def _hash(executable: Path, size: int, modified_ns: int) -> str:
    """Return the hash of a program, which may have a hundred megabytes, once for each state of its file."""
    del size, modified_ns
    return file_sha256(executable)
