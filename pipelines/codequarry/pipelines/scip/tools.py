"""Supported SCIP indexers, their languages, and detection of installed ones."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.settings.load import Settings
from codequarry.schemas.trust.programs import find_program
from codequarry.serving.files.integrity import file_sha256


@dataclass(frozen=True, slots=True)
class Indexer:
    """A program that writes ``index.scip`` of the folder it is started in."""

    name: str
    """Name of the executable; the npm package is ``@sourcegraph/<name>``."""
    languages: frozenset[str]


@dataclass(frozen=True, slots=True)
class Installed:
    """An indexer on this machine."""

    indexer: Indexer
    executable: Path
    version: str

    @property
    def label(self) -> str:
        """Name and version, as the manifest shows them."""
        return f"{self.indexer.name} {self.version}"


PYTHON = Indexer("scip-python", frozenset({"python"}))
TYPESCRIPT = Indexer("scip-typescript", frozenset({"typescript", "tsx", "javascript"}))
INDEXERS = (PYTHON, TYPESCRIPT)


def find_indexer(indexer: Indexer, settings: Settings) -> Installed | None:
    """Return the indexer in the user's tools folder, else on PATH; never one from an indexed repository."""
    program = find_program(indexer.name, indexed_folders(settings), tools=True)
    if program is None:
        return None
    executable = Path(os.path.realpath(program))
    return Installed(indexer, executable, _version(indexer, executable))


def indexed_folders(settings: Settings) -> list[Path]:
    """Return the folders of this machine that are indexed."""
    return [each.path for each in settings.sources.repositories if each.path is not None]


def indexer_versions(settings: Settings) -> dict[str, str]:
    """Return the version of every indexer that a run would use; installing one makes a bundle out of date."""
    if not settings.scip.enabled:
        return {}
    found = [find_indexer(indexer, settings) for indexer in INDEXERS]
    return {each.indexer.name: each.version for each in found if each is not None}


def _version(indexer: Indexer, executable: Path) -> str:
    """Return the version in the npm package, without starting it; for another program a hash of its bytes."""
    for folder in executable.parents[:4]:
        try:
            package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if package["name"].endswith(f"/{indexer.name}"):
                return str(package["version"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return f"sha256-{file_sha256(executable)[:12]}"
