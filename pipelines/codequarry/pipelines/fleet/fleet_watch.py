"""The watch over a fleet: builds what moved, as soon as a push is told or a poll finds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from codequarry.pipelines.fleet.fleet_build import FleetBuild
from codequarry.pipelines.fleet.pushes.moved_repositories import MovedRepositories
from codequarry.pipelines.fleet.pushes.polled_pages import PolledPages, seconds_between
from codequarry.pipelines.fleet.pushes.push_event import PushEvent, concerned
from codequarry.pipelines.sources.sources import repositories_to_index
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError
from codequarry.schemas.resources import trim_memory
from codequarry.schemas.settings.load import RepositorySettings, Settings

_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
"""Seconds until a build that failed is tried again: the first time, and at most."""
_CURSOR = "polled.json"

Build = Callable[[Settings, Collection[str]], FleetBuild]
"""Builds what changed of the repositories with these names, beside new ones."""


class FleetWatch:
    """A loop of builds. Pushes of a moment are one build, and those that come meanwhile the next one."""

    def __init__(
        self, load: Callable[[], Settings], build: Build, said: Callable[[str], None], *, every_s: float
    ) -> None:
        """Prepare the watch; nothing is asked yet.

        Args:
            load: Loads the settings, which is done anew for each round: repositories come and go in them.
            build: Builds.
            said: Told in sentences what is wrong.
            every_s: Seconds in which every repository is asked once for its head.

        Raises:
            InvalidArgumentError: The settings name no repository, or two of the same name.
        """
        self._load, self._build, self._said, self._every_s = load, build, said, every_s
        self._settings = load()
        self._repositories = repositories_to_index(self._settings)
        self._pages = PolledPages(self._settings.fleet.folder / _CURSOR)
        self._moved = MovedRepositories()
        self._generation, self._failures, self._is_failing = 0, 0, False

    @property
    def repositories(self) -> int:
        """Number of repositories that are watched."""
        return len(self._repositories)

    def queue(self, push: PushEvent) -> Sequence[str]:
        """Let the next build look at what a push concerns; may be called from any thread.

        Args:
            push: A push that is trusted.

        Returns:
            Names of the repositories.
        """
        names = concerned(push, self._repositories.values())
        self._moved.add(names)
        return names

    def state(self) -> dict[str, object]:
        """Return what anybody may know who asks whether the watch is well; may be called from any thread."""
        return {
            "status": "degraded" if self._is_failing or self._failures else "ok",
            "generation": self._generation,
            "waiting": self._moved.waiting,
            "failures": self._failures,
        }

    def run(self) -> None:
        """Build until this process is interrupted.

        Raises:
            InvalidArgumentError: The settings cannot be built at all; later on that is said, and tried again.
            KeyboardInterrupt: A signal came.
        """
        wait_s, due = 0.0, 0.0
        while True:
            pushed = self._moved.take(max(0.0, due - time.monotonic()))
            self._reload()
            page = self._pages.next_page([*self._repositories]) if time.monotonic() >= due else ()
            try:
                done = self._build(self._settings, pushed | {*page})
                self._pages.move_on(page)
            except CodequarryError as error:
                if isinstance(error, InvalidArgumentError) and not self._generation:
                    raise
                self._moved.add(pushed)
                self._is_failing = True
                self._said(f"error: {error.message}; it is tried again")
                wait_s = min(max(2 * wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S)
                time.sleep(wait_s)
                continue
            wait_s, self._is_failing = 0.0, False
            self._generation, self._failures = done.manifest.generation, len(done.failures)
            if page:
                due = time.monotonic() + seconds_between(self._every_s, len(self._repositories))
            trim_memory()

    def _reload(self) -> None:
        """Take the settings as they are now; where they cannot be read, the ones before stay."""
        try:
            settings = self._load()
            repositories: dict[str, RepositorySettings] = repositories_to_index(settings)
        except CodequarryError as error:
            self._said(f"error: {error.message}; the settings before stay")
            return
        self._settings, self._repositories = settings, repositories
