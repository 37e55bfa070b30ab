"""Which settings a run works with, and the frame of every step around its call into the pipeline."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from codequarry.pipelines.workspace import working
from codequarry.schemas.errors import CodequarryError
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
    def step(self) -> Iterator[Settings]:
        """Settings for one step, which shares the work folder neither with ``codequarry index`` nor with another run.

        A CodequarryError becomes dagster.RetryRequested when waiting may help, else dagster.Failure, with which the run
        page shows the message and the suggestion.
        """
        try:
            settings = self.settings()
            with working(settings):
                yield settings
        except CodequarryError as error:
            if error.retryable:
                raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=RETRY_AFTER_S) from error
            raise dg.Failure(error.message, {"code": error.code, "suggestion": error.suggestion}) from error
