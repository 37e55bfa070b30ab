"""The settings that a run works with, one partition per repository, and the frame of every step around its call."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import working
from codequarry.schemas.errors import CodequarryError, RemoteError
from codequarry.schemas.settings.load import SETTINGS_FILE, Settings, load_settings

SETTINGS_VARIABLE = "CODEQUARRY_SETTINGS"

# Wait up to an hour for a `codequarry index` that runs at the same time.
MAX_RETRIES = 60
RETRY_AFTER_S = 60


class Project(dg.ConfigurableResource):
    """The settings file, read afresh by every step."""

    settings_file: str
    named: bool = True
    """True when the operator named the file, which makes it trusted; otherwise the folder has to be trusted."""

    @classmethod
    def from_environment(cls) -> "Project":
        """Return the project of the file that ``CODEQUARRY_SETTINGS`` names, else of ``dagster_project.toml`` here."""
        named = os.environ.get(SETTINGS_VARIABLE, "")
        return cls(settings_file=str(Path(named or SETTINGS_FILE).absolute()), named=bool(named))

    def settings(self) -> Settings:
        """Read the settings from the file as it is now.

        Returns:
            The settings.

        Raises:
            SettingsError: The file is missing or not valid.
            UntrustedError: Nobody named or trusted the file, and it asks for what only a trusted one may.
        """
        return load_settings(Path(self.settings_file), named=self.named)

    @contextmanager
    def step(self, tries: int) -> Iterator[Settings]:
        """Yield settings for one step as `explained` does, and keep the work folder from other runs meanwhile.

        Other runs are those of Dagster and of ``codequarry index``.
        """
        with self.explained(tries) as settings, working(settings):
            yield settings

    @contextmanager
    def explained(self, tries: int) -> Iterator[Settings]:
        """Yield settings for one step, and translate its errors for Dagster.

        A CodequarryError becomes dagster.RetryRequested when waiting may help, else dagster.Failure, with which the run
        page shows the message and the suggestion. Two things are tried again: a wait for another process that is done
        soon, and a remote that did not answer, for which each wait is twice the one before. Wrong data stays wrong.

        Args:
            tries: Number of earlier tries of the step, `retry_number` of its context.

        Yields:
            The settings.

        Raises:
            dagster.RetryRequested: Waiting may help.
            dagster.Failure: Any other CodequarryError.
        """
        patience = 0, 0.0
        try:
            settings = self.settings()
            patience = settings.automation.remote_retries, settings.automation.remote_wait_s * 2**tries
            yield settings
        except RemoteError as error:
            raise dg.RetryRequested(max_retries=patience[0], seconds_to_wait=patience[1]) from error
        except CodequarryError as error:
            if error.retryable:
                raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=RETRY_AFTER_S) from error
            raise dg.Failure(error.message, {"code": error.code, "suggestion": error.suggestion}) from error


PARTITIONS = "repos"
RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
"""Dagster's tags with the first and the last partition of a run; one that carries both covers those between them."""
repositories = dg.DynamicPartitionsDefinition(name=PARTITIONS)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Differences between the registered partition keys and the settings."""

    missing: tuple[str, ...]
    """Repositories without a key, in settings order."""
    obsolete: tuple[str, ...]
    """Keys that the settings no longer name."""


def partition_change(registered: Sequence[str], settings: Settings) -> PartitionChange:
    """Compare the registered keys with the repositories of the settings."""
    wanted = repositories_by_name(settings.sources.repositories)
    return PartitionChange(
        missing=tuple(name for name in wanted if name not in registered),
        obsolete=tuple(key for key in registered if key not in wanted),
    )


def sync_partitions(instance: dg.DagsterInstance, settings: Settings) -> tuple[str, ...]:
    """Make the registered keys those of the settings, and return them in the order that ranges of keys follow."""
    change = partition_change(instance.get_dynamic_partitions(PARTITIONS), settings)
    if change.missing:
        instance.add_dynamic_partitions(PARTITIONS, list(change.missing))
    for key in change.obsolete:
        instance.delete_dynamic_partition(PARTITIONS, key)
    return tuple(instance.get_dynamic_partitions(PARTITIONS))
