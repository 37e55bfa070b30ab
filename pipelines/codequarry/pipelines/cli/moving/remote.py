"""``codequarry push``, ``pull`` and ``follow``: published versions in object storage."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from codequarry.pipelines.cli.bundle import RootOption, existing_root
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wording import counted

if TYPE_CHECKING:
    from codequarry.pipelines.publish.remote.pull import Pulled
    from codequarry.pipelines.publish.remote.push import Pushed
    from codequarry.pipelines.publish.remote.store import NamedCurrent, RemoteStore

PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER."
    ),
]
VersionArgument = Annotated[
    str, typer.Argument(metavar="VERSION", help="Name of a version.", show_default="the current one")
]
_LONGEST_S = 60.0


def push(
    url: PlaceArgument,
    version: VersionArgument = "",
    keep_current: Annotated[
        bool, typer.Option("--keep-current", help="Put the version there, and leave what is current there.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Make it current there also when a newer version is: push a rollback so.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            min=2, help="Versions to keep there, the current one included; older ones go.", show_default="all"
        ),
    ] = None,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Put a published version into object storage, and make it current there.

    Only what is not there travels. Every byte is checked first. The base of a delta version goes with it. A push that
    was interrupted goes on where it was. Credentials come from the environment of the provider, such as
    AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL.

    Examples:

      codequarry push s3://search/team-a

      codequarry push s3://search/team-a --keep 10

      codequarry push file:///mnt/shared/index
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    bundle_root = existing_root(settings.bundle.root)
    from codequarry.pipelines.publish.remote.push import push_version

    with Bars() as bars:
        done = push_version(
            bundle_root,
            _open(url, create=True),
            version,
            bars.show,
            keep_current=keep_current,
            force=force,
            keep=keep or 0,
        )
    console.print(describe_push(done), highlight=False, soft_wrap=not console.is_terminal)
    for name in done.removed:
        console.print(f"retention removed {name} there", highlight=False)
    typer.echo(done.manifest.version)


def pull(
    url: PlaceArgument,
    version: VersionArgument = "",
    keep_current: Annotated[
        bool, typer.Option("--keep-current", help="Add the version beside the current one, which stays current.")
    ] = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Take a version from object storage, and publish it here.

    Every byte is checked before anything is current. Files that a version here holds do not travel. A pull that was
    interrupted goes on where it was. Whatever fails, CURRENT stays.

    Examples:

      codequarry pull s3://search/team-a

      codequarry pull s3://search/team-a 20261121T120000Z-0123abcd --keep-current
    """
    settings = load_settings(settings_file, bundle_root=root, look="above")
    from codequarry.pipelines.publish.remote.pull import pull_version

    with Bars() as bars:
        done = pull_version(_open(url), settings, version, bars.show, keep_current=keep_current)
    console.print(describe_pull(done), highlight=False, soft_wrap=not console.is_terminal)
    typer.echo(done.imported.path)


def follow(
    url: PlaceArgument,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks at CURRENT.")] = 1.0,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Pull each version that becomes current in object storage, until Ctrl-C.

    A server beside it (`codequarry serve` with the same root) goes over to each version by itself. Without a
    connection the last version stays, and the looks become rarer, up to one a minute.

    Examples:

      codequarry follow s3://search/team-a

      codequarry follow s3://search/team-a --every 5 --root /srv/bundles
    """
    settings = load_settings(settings_file, bundle_root=root, look="above")
    from codequarry.pipelines.publish.remote.pull import pull_version

    store = _open(url)
    held: NamedCurrent | None = None

    def look() -> str:
        nonlocal held
        named = store.read_current()
        if named is None:
            return f"nothing is current at {store.url} yet"
        if named != held:
            done = pull_version(store, settings, named=named)
            held = named
            console.print(describe_pull(done), highlight=False, soft_wrap=not console.is_terminal)
        return ""

    FollowLoop(store.url, every).run(look)


class FollowLoop:
    """Loop that looks at a place until a signal ends this process, the more rarely the longer it does not answer.

    Args:
        url: The place, for messages.
        every_s: Seconds between two looks.
    """

    def __init__(self, url: str, every_s: float) -> None:
        self._url, self._every_s = url, every_s
        self._ended = threading.Event()

    def run(self, look: Callable[[], str]) -> None:
        """Look until a signal comes.

        Args:
            look: Takes what is new; returns a sentence that is said once where there is nothing to take yet.

        Raises:
            InvalidArgumentError: Looking again would not help.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end)
        console.print(f"following {self._url}", highlight=False)
        wait_s, said = 0.0, ""
        while not self._ended.wait(wait_s):
            try:
                sentence = escape(look())
            except InvalidArgumentError:
                raise
            except CodequarryError as error:
                wait_s = min(max(2 * wait_s, self._every_s), _LONGEST_S)
                sentence = f"[red]error:[/red] {escape(error.message)}; it is tried again"
            else:
                wait_s = self._every_s
            if sentence and sentence != said:
                console.print(sentence, highlight=False, soft_wrap=not console.is_terminal)
            said = sentence
        console.print(f"stopped following {self._url}", highlight=False)

    def _end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ended.set()


def _open(url: str, *, create: bool = False) -> RemoteStore:
    from codequarry.pipelines.publish.remote.store import RemoteStore

    return RemoteStore.open(url, create=create)


def describe_push(done: Pushed) -> str:
    """Return a line about a push."""
    name, base = done.manifest.version, done.manifest.stack.base if done.manifest.stack is not None else ""
    over = f" over {base}" if base else ""
    travelled = f"{counted(done.objects, 'object')} of {done.sent_bytes / 1e6:.2f} MB travelled"
    if done.is_current:
        ends = "it is current there"
    elif done.current:
        ends = f"{done.current} stays current there"
    else:
        ends = "nothing is current there"
    return f"[green]pushed[/green] {name}{over} to {done.url}: {travelled}; {ends}"


def describe_pull(done: Pulled) -> str:
    """Return a line about a pull."""
    version = done.imported.manifest
    over = f" over {version.stack.base}" if version.stack is not None else ""
    travelled = f"{counted(done.objects, 'object')} of {done.received_bytes / 1e6:.2f} MB travelled"
    ends = {
        "published": "it is current",
        "added": "CURRENT stays",
        "made current": "it was here already; it is current now",
        "unchanged": "it was here already; nothing had to be done",
    }[done.imported.done]
    return f"[green]pulled[/green] {version.version}{over}: {travelled}; {ends}"
