"""Which SCIP indexers there are, what they index, and which of them are installed."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.settings import Settings


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


def tools_folder(store: Path) -> Path:
    """Where ``npm install --prefix`` puts indexers that only this project uses."""
    return store / "tools"


def find_indexer(indexer: Indexer, store: Path) -> Installed | None:
    """The indexer in the tools folder of the store, else on PATH."""
    places = (str(tools_folder(store) / "node_modules" / ".bin"), os.environ.get("PATH", ""))
    for place in places:
        found = shutil.which(indexer.name, path=place)
        if found is not None and os.path.isabs(found):
            executable = Path(os.path.realpath(found))
            return Installed(indexer, executable, _version(indexer, executable))
    return None


def indexer_versions(settings: Settings) -> dict[str, str]:
    """Version of every indexer that a run would use; installing one makes a bundle out of date."""
    if not settings.scip.enabled:
        return {}
    found = [find_indexer(indexer, settings.paths.store) for indexer in INDEXERS]
    return {each.indexer.name: each.version for each in found if each is not None}


def _version(indexer: Indexer, executable: Path) -> str:
    """What the npm package says, without starting it; for another program a hash of its bytes."""
    for folder in executable.parents[:4]:
        try:
            package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if package["name"].endswith(f"/{indexer.name}"):
                return str(package["version"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return f"sha256-{file_sha256(executable)[:12]}"
