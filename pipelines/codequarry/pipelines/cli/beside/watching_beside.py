"""The watch beside a server, for ``codequarry serve --watch``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codequarry.pipelines.cli.beside.command_beside import command_beside
from codequarry.pipelines.cli.watch.plan import folder_around
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.trust.state_folders import HOME_FOLDER


@contextmanager
def watching_beside(root: Path | None, settings_file: Path | None) -> Iterator[None]:
    """Run a watch for the block, which begins when a version is published: then there is one to serve.

    Args:
        root: Bundle root of the command line.
        settings_file: Settings file of the command line.

    Yields:
        Nothing.

    Raises:
        InvalidArgumentError: The root is named, and nothing says where the work folder and the store are.
        UnavailableError: The watch ended before any version was published.
    """
    folder = _folder_of(root, settings_file)
    published = BundleRoot(root.absolute() if root is not None else _root_in(folder, settings_file))
    arguments = ["watch"]
    arguments += ["--root", str(root.absolute())] if root is not None else []
    arguments += ["--settings", str(settings_file.absolute())] if settings_file is not None else []
    with command_beside(
        arguments,
        folder,
        ready=published.current.exists,
        unready="nothing is published yet, and the watch ended before its first version",
        goes_on="the server goes on with what is published, and does not follow changes of the files any more",
    ):
        yield


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
