"""Which settings a run works with, and the frame of every step around its call into the pipeline."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from codequarry.pipelines.workspace import working
from codequarry.schemas.errors import CodequarryError, RemoteError
from codequarry.schemas.settings import SETTINGS_FILE, Settings, load_settings

SETTINGS_VARIABLE = "CODEQUARRY_SETTINGS"

# An hour of patience with a `codequarry index` that runs beside us.
MAX_RETRIES = 60
RETRY_AFTER_S = 60


class Project(dg.ConfigurableResource):
    """The settings file, read afresh by every step."""

    settings_file: str

    @classmethod
    def from_environment(cls) -> "Project":
        """The file that ``CODEQUARRY_SETTINGS`` names, else ``dagster_project.toml`` of the current folder."""
        return cls(settings_file=str(Path(os.environ.get(SETTINGS_VARIABLE) or SETTINGS_FILE).absolute()))

    def settings(self) -> Settings:
        """The settings as the file has them now. Raises SettingsError: it is missing or not valid."""
        return load_settings(Path(self.settings_file))

    @contextmanager
    def step(self, tries: int) -> Iterator[Settings]:
        """As `explained`, for a step that shares the work folder neither with ``codequarry index`` nor another run."""
        with self.explained(tries) as settings, working(settings):
            yield settings

    @contextmanager
    def explained(self, tries: int) -> Iterator[Settings]:
        """Settings for one step, whose errors are told to Dagster.

        A CodequarryError becomes dagster.RetryRequested when waiting may help, else dagster.Failure, with which the run
        page shows the message and the suggestion. Only the outside world is asked again: another process that is done
        soon, a remote that did not answer, for which each wait is twice the one before. Data that is wrong stays wrong.

        tries: how often the step was tried before, `retry_number` of its context.
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
