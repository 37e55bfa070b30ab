"""A project of two tiny repositories, and runs of its job on an instance that lives in memory."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from codequarry.assets.automation import whole
from codequarry.assets.definitions import build_definitions
from codequarry.assets.project import Project, sync_partitions
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.serving.files.integrity import read_manifest

PYTHON = '''
def {name}(count: int) -> int:
    """Multiply by two."""
    return 2 * count


class {name}_box:
    def open(self) -> str:
        return "{name}"
'''


@dataclass(frozen=True)
class Workbench:
    """A project, an instance, and what one wants to do with them."""

    folder: Path
    instance: dg.DagsterInstance

    @property
    def project(self) -> Project:
        return Project(settings_file=str(self.folder / "dagster_project.toml"))

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.project.settings().bundle.root)

    @property
    def manifest(self) -> Manifest:
        current = self.root.read_current()
        return read_manifest(self.root.version(current.version), expected_sha256=current.manifest_sha256)

    def configure(self, *repositories: str, more: str = "") -> None:
        """Write the settings file. more: further sections."""
        listed = ", ".join(f'{{ path = "repositories/{name}" }}' for name in repositories)
        text = f"[sources]\nrepositories = [{listed}]\n{more}"
        (self.folder / "dagster_project.toml").write_text(text, encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        file = self.folder / "repositories" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def reindex(self) -> dg.ExecuteInProcessResult:
        """What the schedule starts."""
        return self.run(whole(sync_partitions(self.instance, self.project.settings())))

    def run(self, tags: dict[str, str]) -> dg.ExecuteInProcessResult:
        job = build_definitions(self.project).resolve_job_def("REINDEX")
        return job.execute_in_process(instance=self.instance, tags=tags, raise_on_error=False)

    def materialize(self, asset: str) -> dg.ExecuteInProcessResult:
        """What the button of one asset without partitions starts, which takes a tenth of a whole run."""
        job = build_definitions(self.project).resolve_job_def("REINDEX")
        return job.execute_in_process(
            instance=self.instance, asset_selection=[dg.AssetKey(asset)], raise_on_error=False
        )


@pytest.fixture
def workbench(tmp_path: Path) -> Iterator[Workbench]:
    """Nothing has run yet."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield _prepared(tmp_path, instance)


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workbench, dg.ExecuteInProcessResult]]:
    """A project after its first run, and that run. Not to be changed: copy it, as ``published`` does."""
    with dg.DagsterInstance.ephemeral() as instance:
        bench = _prepared(tmp_path_factory.mktemp("project"), instance)
        yield bench, bench.reindex()


@pytest.fixture
def published(
    first_run: tuple[Workbench, dg.ExecuteInProcessResult], tmp_path: Path, workbench: Workbench
) -> Workbench:
    """A project whose first version is published."""
    shutil.copytree(first_run[0].folder, tmp_path, dirs_exist_ok=True)
    sync_partitions(workbench.instance, workbench.project.settings())
    return workbench


def _prepared(folder: Path, instance: dg.DagsterInstance) -> Workbench:
    bench = Workbench(folder, instance)
    for name in ("alpha", "beta"):
        bench.write(f"{name}/{name}.py", PYTHON.format(name=name))
        bench.write(f"{name}/README.md", f"# {name}\n\nWhat {name} is for.\n")
    bench.configure("beta", "alpha")
    return bench
