"""Hosts of a fleet's bundles: this process, which has bundles open, or a replica that is asked over the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from codequarry.schemas.bundle.manifest import SourceEntry
from codequarry.schemas.errors import (
    CodequarryError,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from codequarry.schemas.wire.pro import ProRequest
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.tools.context import ToolContext, ToolFunction
from codequarry.serving.tools.pro import open_with_stages
from codequarry.serving.tools.search import open_search
from codequarry.serving.tools.version_search import SearchedVersions


class BundleHost(Protocol):
    """Process that has bundles of one generation open for a call."""

    lost: str
    """Reason why its bundles are not in the answer; "" while it answers."""

    def ask(self, tool: ToolFunction, requests: Mapping[str, BaseModel]) -> dict[str, BaseModel | CodequarryError]:
        """Ask bundles one tool.

        Args:
            tool: Function that answers from one version.
            requests: The request to each bundle, by its name.

        Returns:
            The answer of each, or its refusal.

        Raises:
            ReplicaError: It does not answer, which `lost` tells from then on.
        """
        ...

    def search(self, requests: Mapping[str, SearchRequest | ProRequest]) -> SearchedVersions:
        """Return bundles for a search, in the order of the requests to them; its steps raise as `ask`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class AskedBundle:
    """A bundle of the fleet, open for one call."""

    name: str
    sources: tuple[SourceEntry, ...]
    """Its repositories, as far as the caller may see them."""
    host: BundleHost

    @property
    def repositories(self) -> list[str]:
        """Names of its repositories."""
        return [one.name for one in self.sources]


class OpenBundles:
    """Bundles that are open in this process."""

    lost = ""

    def __init__(self) -> None:
        self.contexts: dict[str, ToolContext] = {}
        """Version and deadline of each bundle, by its name."""

    def ask(self, tool: ToolFunction, requests: Mapping[str, BaseModel]) -> dict[str, BaseModel | CodequarryError]:
        """See `BundleHost.ask`."""
        return {name: _answer(tool, self.contexts[name], request) for name, request in requests.items()}

    def search(self, requests: Mapping[str, SearchRequest | ProRequest]) -> SearchedVersions:
        """See `BundleHost.search`."""
        plain = [(self.contexts[name], one) for name, one in requests.items() if isinstance(one, SearchRequest)]
        staged = [(self.contexts[name], one) for name, one in requests.items() if isinstance(one, ProRequest)]
        return open_search(plain) if plain else open_with_stages(staged)


def _answer(tool: ToolFunction, context: ToolContext, request: BaseModel) -> BaseModel | CodequarryError:
    try:
        return tool(context, request)
    except (InvalidArgumentError, NotFoundError, DeadlineError, UnavailableError) as error:
        return error
