"""The instance of Dagster that `make dagster` has, in a folder of a test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from unittest import mock

import dagster as dg


def prepared_home(folder: Path) -> Path:
    """Return ``folder`` as DAGSTER_HOME, made if it is missing, with the template of the settings of the instance."""
    folder.mkdir(exist_ok=True)
    if not (folder / "dagster.yaml").exists():
        shutil.copy(str(files("codequarry.assets.instance") / "dagster.yaml"), folder / "dagster.yaml")
    return folder


@contextmanager
def instance_in(folder: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance of a folder, as one does whose DAGSTER_HOME it is."""
    with mock.patch.dict(os.environ, DAGSTER_HOME=str(prepared_home(folder))):
        opened = dg.DagsterInstance.get()
    with opened as instance:
        yield instance
