"""The watch beside a server, for ``codequarry serve --watch``: a process of its own, which ends with the server.

The serving layer starts no process and writes nothing; the command line, which is of this layer, does. The watch reads
a pipe from the server. It closes however the server ends, even by SIGKILL, and the watch ends then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import typer

from codequarry.pipelines.cli.watch.plan import folder_around
from codequarry.pipelines.store.processes import start_group, stop_group
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.trust.state_folders import HOME_FOLDER

_LOOK_S = 0.1
_END_S = 5.0


@contextmanager
def watching_beside(root: Path | None, settings_file: Path | None) -> Iterator[None]:
    """Run a watch in a process of its own for the block; its lines go to standard error.

    The block begins when a version is published, so that there is one to serve. A watch that ends leaves the block
    alone, and one line says so.

    Args:
        root: Bundle root of the command line.
        settings_file: Settings file of the command line.

    Yields:
        Nothing.

    Raises:
        InvalidArgumentError: The root is named, and nothing says where the work folder and the store are.
        MissingExtraError: A library of the extra ``build`` is not installed.
        UnavailableError: The watch ended before any version was published.
    """
    for module in ("watchfiles", "tree_sitter"):
        if find_spec(module) is None:
            raise missing_extra("codequarry serve --watch", "build", missing=module)
    folder = _folder_of(root, settings_file)
    published = BundleRoot(root.absolute() if root is not None else _root_in(folder, settings_file))
    process = start_group(lambda: _start(folder, root, settings_file))
    ending = threading.Event()
    try:
        while not published.current.exists():
            if process.poll() is not None:
                raise UnavailableError(
                    "nothing is published yet, and the watch ended before its first version",
                    suggestion="its last lines above say why",
                )
            time.sleep(_LOOK_S)
        threading.Thread(target=_report_end, args=(process, ending), name="watch", daemon=True).start()
        yield
    finally:
        ending.set()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        stop_group(process)


def _folder_of(root: Path | None, settings_file: Path | None) -> Path:
    """Return the folder in which the watch runs: its work folder and its store are where an index made there has them.

    A client starts a server in the folder it works in, which says nothing about a root that is named.
    """
    if settings_file is not None:
        return Path.cwd()
    if root is None:
        return folder_around(Path.cwd())
    root = root.absolute()
    if (root.name, root.parent.name) == ("bundles", HOME_FOLDER) and root.parent.parent.is_dir():
        return root.parent.parent
    raise InvalidArgumentError(
        f"--watch with --root {root} does not know the work folder and the store of this bundle root",
        suggestion="give the settings file that names them, with --settings",
    )


def _root_in(folder: Path, settings_file: Path | None) -> Path:
    """Return the bundle root that the watch publishes to."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return load_settings(settings_file).bundle.root
    finally:
        os.chdir(before)


def _start(folder: Path, root: Path | None, settings_file: Path | None) -> subprocess.Popen[bytes]:
    # -P: a repository's folder must not be where Python looks for modules.
    command = [sys.executable, "-P", "-m", "codequarry.pipelines.cli", "watch", "--until-stdin-closes"]
    command += ["--root", str(root.absolute())] if root is not None else []
    command += ["--settings", str(settings_file.absolute())] if settings_file is not None else []
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=sys.__stderr__, start_new_session=True)


def _report_end(process: subprocess.Popen[bytes], ending: threading.Event) -> None:
    code = process.wait()
    if not ending.is_set():
        typer.echo(
            f"the watch ended with exit code {code}: the server goes on with what is published, and does not follow "
            "changes of the files any more",
            err=True,
        )
