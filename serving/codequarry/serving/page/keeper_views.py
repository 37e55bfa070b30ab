"""Pages for those who look after the index, about all repositories: versions, quality over time, what agents asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.datastructures import QueryParams

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import UnavailableError
from codequarry.serving.page.logged_searches import asked_searches
from codequarry.serving.page.rendering import render
from codequarry.serving.page.version_history import difference_between, quality_points, version_lines

_T = TypeVar("_T")

_AT_ONCE = 1
"""Pages of this kind that are made at one time: agents' calls have the rest of the machine."""
_SHOWN = 200
"""Files or definitions of a list."""
_CHART = (560, 120)
"""Pixels."""
_METRICS = {"ndcg_10": "NDCG@10", "recall_4k": "Recall within 4,000 tokens"}


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """Places that these pages read."""

    root: BundleRoot
    pools: Path | None
    """Folder of the pool log; None where none is written."""


class KeeperViews:
    """The pages, which are made one after the other."""

    def __init__(self, kept: KeptRecords) -> None:
        """Prepare the pages.

        Args:
            kept: Places to read.
        """
        self._kept, self._turn = kept, anyio.CapacityLimiter(_AT_ONCE)

    async def show_versions(self, _given: QueryParams) -> str:
        """Render the list of versions, what the gate found of each, and quality over time.

        Args:
            _given: Parameters, none of which is used.

        Returns:
            The page.

        Raises:
            CodequarryError: Manifests cannot be read now.
        """
        lines = await self._in_turn(partial(version_lines, self._kept.root))
        charts = {title: quality_points(lines, metric, *_CHART) for metric, title in _METRICS.items()}
        return await render("versions.html", title="Versions", lines=lines, charts=charts, size=_CHART)

    async def show_difference(self, given: QueryParams) -> str:
        """Render what differs between two versions.

        Args:
            given: ``before`` and ``after``, names of versions.

        Returns:
            The page.

        Raises:
            CodequarryError: One of them is not there, or cannot be read.
        """
        before, after = given.get("before", ""), given.get("after", "")
        found = await self._in_turn(partial(difference_between, self._kept.root, before, after))
        return await render("difference.html", title="Difference", found=found, shown=_SHOWN, metrics=_METRICS)

    async def show_requests(self, _given: QueryParams) -> str:
        """Render the newest searches of the pool log.

        Args:
            _given: Parameters, none of which is used.

        Returns:
            The page.
        """
        folder = self._kept.pools
        found = await self._in_turn(partial(asked_searches, folder)) if folder is not None else []
        return await render("asked.html", title="What was asked", found=found, logged=folder is not None)

    async def _in_turn(self, work: Callable[[], _T]) -> _T:
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._turn)
        except FileNotFoundError:
            raise UnavailableError(
                "a file went while it was read: versions and parts of the log are removed as settings say",
                suggestion="load the page again",
            ) from None
