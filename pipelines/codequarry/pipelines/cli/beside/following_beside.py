"""The follower of a fleet beside a server, for ``codequarry serve --fleet URL``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codequarry.pipelines.cli.beside.command_beside import command_beside
from codequarry.pipelines.publish.remote.store import without_secrets
from codequarry.schemas.errors import IntegrityError, NoBundleError
from codequarry.schemas.fleet.replica import ReplicaRoot
from codequarry.schemas.fleet.shares import Share
from codequarry.schemas.settings.load import load_settings


@contextmanager
def following_beside(url: str, share: str, root: Path | None, settings_file: Path | None) -> Iterator[Path]:
    """Pull each generation of a fleet for the block, which begins when one is held here.

    A generation that a run before took is served at once, although the fleet may have another one by now.

    Args:
        url: Place of the fleet.
        share: Share of its bundles.
        root: Folder of the replica; None for that of the settings.
        settings_file: Settings file of the command line.

    Yields:
        The folder of the replica.

    Raises:
        InvalidArgumentError: The share is none.
        UnavailableError: The follower ended before any generation was held.
    """
    wanted, place = Share.parse(share), without_secrets(url)
    settings = load_settings(settings_file, look="above")
    replica = ReplicaRoot(root.absolute() if root is not None else settings.fleet.replica.absolute())

    def is_held() -> bool:
        try:
            held = replica.read()
        except (NoBundleError, IntegrityError):
            return False
        return (held.url, held.share) == (place, str(wanted))

    arguments = ["fleet", "follow", url, "--share", str(wanted), "--root", str(replica.path)]
    arguments += ["--settings", str(settings_file.absolute())] if settings_file is not None else []
    with command_beside(
        arguments,
        Path.cwd(),
        ready=is_held,
        unready=f"no generation of {place} is held under {replica.path}, and following it ended before the first one",
        goes_on="the server goes on with the generation that is held, and takes no other one any more",
    ):
        yield replica.path
