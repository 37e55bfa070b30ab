"""``codequarry fleet``: plan and build a fleet of bundles, roll it back, and take a share of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.pipelines.cli.beside.command_beside import StdinOption, end_with_stdin
from codequarry.pipelines.cli.fleet.report import describe_generation, print_build, tell
from codequarry.pipelines.cli.fleet.status import status
from codequarry.pipelines.cli.fleet.tables import plan_as_json, print_plan
from codequarry.pipelines.cli.fleet.watch import DeltaOption, watch
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.pipelines.gates.accept import checked_reason
from codequarry.pipelines.store.processes import ending_groups
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.errors import InvalidArgumentError, NoBundleError
from codequarry.schemas.resources import return_freed_memory
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption

if TYPE_CHECKING:
    from codequarry.pipelines.fleet.fleet_pull import PulledFleet
    from codequarry.pipelines.publish.remote.pull import Pulled
    from codequarry.schemas.fleet.replica import ReplicaRoot

EXIT_WITH_FAILURES = 3
"""Exit code of a build whose generation names failures."""

fleet_app = typer.Typer(
    help="Many repositories as many bundles in object storage, which is named by [fleet] url of the settings: plan, "
    "build, look, roll back, and take a share.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
fleet_app.command("status")(status)


@fleet_app.command("plan")
def plan(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """Print the bundle of each repository, and what a build would look at, with reasons.

    Repositories stay where they are. One moves only when its bundle has more than [fleet] bundle_chunks_max chunks. New
    ones are measured by the bytes of their source files, for which a URL is fetched. Nothing is built or put.

    Examples:

      codequarry fleet plan

      codequarry fleet plan --json
    """
    settings = load_settings(settings_file, look="above")
    from codequarry.pipelines.fleet.fleet_build import plan_build
    from codequarry.pipelines.fleet.fleet_store import FleetStore

    known = FleetStore.open(settings, create=True).read_current()
    with Bars() as bars:
        planned = plan_build(settings, known.manifest if known is not None else None, bars.show)
    if as_json:
        typer.echo(plan_as_json(planned))
    else:
        print_plan(planned)


@fleet_app.command("build")
def build(
    delta: DeltaOption = None,
    all_bundles: Annotated[
        bool, typer.Option("--all", help="Look at every bundle, as after an upgrade; unchanged ones stay.")
    ] = False,
    accept_regression: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Build bundles though checks fail that compare with their last versions, and keep the reason.",
        ),
    ] = None,
    settings_file: SettingsOption = None,
) -> None:
    """Build the bundles whose repositories changed, and make a new generation current.

    Each bundle is indexed as `codequarry index` does, in folders of its own, and its version is put into object
    storage, where files that are there do not travel again. Bundles whose repositories are at the same commits are not
    touched. What cannot be read or built goes on as it was: it is named, and the exit code is 3. A build that was
    interrupted goes on where it was.

    Examples:

      codequarry fleet build

      codequarry fleet build --delta

      codequarry fleet build --all

      codequarry fleet build --accept-regression "the examples moved to a repository of their own"
    """
    accept = checked_reason(accept_regression)
    settings = load_settings(settings_file, look="above")
    return_freed_memory()
    from codequarry.pipelines.fleet.bundle_builds import BuildMode
    from codequarry.pipelines.fleet.fleet_build import build_fleet

    mode = BuildMode(settings.bundle.delta if delta is None else delta, delta is False, accept)
    with ending_groups(), Bars() as bars:
        done = build_fleet(settings, bars.show, tell, mode=mode, all_bundles=all_bundles)
    print_build(done)
    typer.echo(done.manifest.generation)
    if done.failures:
        raise typer.Exit(EXIT_WITH_FAILURES)


fleet_app.command("watch")(watch)


@fleet_app.command("rollback")
def rollback(
    generation: Annotated[
        int, typer.Argument(min=0, help="A generation that is kept.", show_default="the one that was current before")
    ] = 0,
    bundle: Annotated[str, typer.Option(metavar="NAME", help="Put only this bundle back.")] = "",
    to: Annotated[
        str, typer.Option(metavar="VERSION", help="Version of the bundle.", show_default="the one before")
    ] = "",
    settings_file: SettingsOption = None,
) -> None:
    """Put an earlier generation, or an earlier version of one bundle, back as a new generation.

    All objects of what is put back are looked for first. The next `codequarry fleet build` builds again what the
    repositories hold then.

    Examples:

      codequarry fleet rollback

      codequarry fleet rollback 12

      codequarry fleet rollback --bundle b0003

      codequarry fleet rollback --bundle b0003 --to 20261121T120000Z-0123abcd
    """
    settings = load_settings(settings_file, look="above")
    if generation and bundle:
        raise InvalidArgumentError(
            "a generation and a bundle were given", suggestion="give one of them; --to names the bundle's version"
        )
    if to and not bundle:
        raise InvalidArgumentError("--to names the version of a bundle", suggestion="name it by --bundle")
    from codequarry.pipelines.fleet.fleet_rollback import roll_back_bundle, roll_back_fleet
    from codequarry.pipelines.fleet.fleet_store import FleetStore

    fleet = FleetStore.open(settings)
    made = roll_back_bundle(fleet, bundle, to) if bundle else roll_back_fleet(fleet, generation)
    what = f"{bundle} at {made.bundles[bundle].version}" if bundle else f"all bundles of generation {made.origin.of}"
    tell(f"generation {describe_generation(made)}, with {what}", lead="current is", style="green")
    typer.echo(made.generation)


ShareOption = Annotated[
    str, typer.Option(metavar="K/N", help="Share of the bundles, such as 2/8: the second of eight.")
]
FleetArgument = Annotated[
    str, typer.Argument(metavar="URL", help="Place of the fleet.", show_default="[fleet] url of the settings")
]
ReplicaOption = Annotated[
    Path | None, typer.Option("--root", help="Folder of the replica.", show_default="[fleet] folder, replica/")
]


@fleet_app.command("pull")
def pull(
    url: FleetArgument = "",
    share: ShareOption = "1/1",
    root: ReplicaOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Take a share of the bundles in the versions of the current generation, each into a bundle root of its own.

    Every byte is checked. When all are there, fleet.json in the folder is replaced: it names the generation and the
    version of each bundle, and until then, it names those from before. A pull that was interrupted goes on where it
    was.

    Examples:

      codequarry fleet pull

      codequarry fleet pull s3://search/fleet --share 2/8 --root /srv/fleet
    """
    settings = _settings_for(url, settings_file)
    replica = _replica(root, settings)
    with Bars() as bars:
        done = _pull(replica, settings, share, bars.show)
    _tell_pull(done)
    typer.echo(replica.path)


@fleet_app.command("follow")
def follow(
    url: FleetArgument = "",
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks at the fleet.")] = 1.0,
    share: ShareOption = "1/1",
    root: ReplicaOption = None,
    until_stdin_closes: StdinOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Pull each generation that becomes current, until Ctrl-C.

    A server beside it (`codequarry serve --fleet` with the same folder) goes over to each generation by itself. Without
    a connection the last one stays, and the looks become rarer, up to one a minute.

    Examples:

      codequarry fleet follow --root /srv/fleet

      codequarry fleet follow s3://search/fleet --share 2/8 --every 5

      codequarry serve --fleet s3://search/fleet --share 2/8    (follows, and serves over MCP)
    """
    settings = _settings_for(url, settings_file)
    replica = _replica(root, settings)
    from codequarry.pipelines.cli.moving.remote import FollowLoop
    from codequarry.pipelines.fleet.fleet_pull import sole_follower

    def look() -> str:
        try:
            done = _pull(replica, settings, share)
        except NoBundleError as error:
            return error.message
        if not done.unchanged:
            _tell_pull(done)
        return ""

    def wait(busy: str) -> None:
        tell(f"{busy}: waiting for it to end")

    if until_stdin_closes:
        end_with_stdin()
    with sole_follower(replica, settings, wait if until_stdin_closes else None):
        FollowLoop(settings.fleet.url, every).run(look)


def _settings_for(url: str, settings_file: Path | None) -> Settings:
    """Return the settings, with the place of the fleet that the command line names, if any."""
    settings = load_settings(settings_file, look="above")
    if not url:
        return settings
    return settings.model_copy(update={"fleet": settings.fleet.model_copy(update={"url": url})})


def _replica(root: Path | None, settings: Settings) -> ReplicaRoot:
    from codequarry.schemas.fleet.replica import ReplicaRoot

    return ReplicaRoot(root.absolute() if root is not None else settings.fleet.replica)


def _pull(replica: ReplicaRoot, settings: Settings, share: str, progress: Progress = silent) -> PulledFleet:
    from codequarry.pipelines.cli.moving.remote import describe_pull
    from codequarry.pipelines.fleet.fleet_pull import pull_fleet
    from codequarry.pipelines.fleet.fleet_store import FleetStore
    from codequarry.schemas.fleet.shares import Share

    def tell(bundle: str, pulled: Pulled) -> None:
        console.print(f"{bundle}: {describe_pull(pulled)}", highlight=False, soft_wrap=not console.is_terminal)

    return pull_fleet(FleetStore.open(settings), replica, settings, Share.parse(share), progress, tell)


def _tell_pull(done: PulledFleet) -> None:
    verb = "unchanged: held is" if done.unchanged else "held is"
    held = f"{counted(len(done.held.own_bundles), 'bundle')} of {len(done.held.fleet.bundles)}, share {done.held.share}"
    console.print(
        f"[green]{verb}[/green] generation {done.held.fleet.generation}, {held}; "
        f"{done.received_bytes / 1e6:.2f} MB travelled",
        highlight=False, soft_wrap=not console.is_terminal,
    )  # fmt: skip
