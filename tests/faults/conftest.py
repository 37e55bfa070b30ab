"""One scene, and one project, for all fault tests; every test works on copies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.faults.scenes.moving import Adding, Moving, build_moving
from tests.faults.scenes.project import Project, build_project
from tests.faults.scenes.scene import Scene, build_scene
from tests.faults.scenes.stacked import Naming, Stacked, build_leaving, build_naming, build_stacked

Copies = Callable[[], Scene]

LAYERED: dict[str, tuple[str, type[Scene], str]] = {
    "delta": ("stacked_template", Stacked, "publish"),
    "ref": ("naming_template", Naming, "name"),
    "archive with base": ("with_base_template", Moving, "import"),
    "archive without base": ("without_base_template", Moving, "import"),
    "added with base": ("with_base_template", Adding, "add"),
    "base leaves": ("leaving_template", Scene, "publish"),
}
"""Publishes of delta versions, and one whose retention removes a base: the fixture of the template, the scene, and the
name that the sweep has for it."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene") / "base")


@pytest.fixture(scope="session")
def first_template(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_scene(tmp_path_factory.mktemp("scene") / "base", first=True)


@pytest.fixture
def scene(template: Scene, tmp_path: Path) -> Scene:
    return template.copy(tmp_path / "base")


@pytest.fixture
def copies(template: Scene, tmp_path: Path) -> Copies:
    """A fresh copy of the scene at every call."""
    numbers = count()
    return lambda: template.copy(tmp_path / f"copy-{next(numbers)}")


@pytest.fixture(params=LAYERED)
def layered(request: pytest.FixtureRequest, tmp_path: Path) -> Copies:
    """A fresh copy at every call of a scene in which a delta version is published."""
    fixture, kind, _ = LAYERED[request.param]
    template, numbers = request.getfixturevalue(fixture), count()
    return lambda: kind(template.copy(tmp_path / f"copy-{next(numbers)}").base)


@pytest.fixture(scope="session")
def project_template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return build_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def changed_digest(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the next version of the project will hold."""
    project = project_template.copy(tmp_path_factory.mktemp("changed") / "project")
    assert project.run("index")[0] == 0
    assert project.digest() != project_template.digest()
    return project.digest()


@pytest.fixture
def project(project_template: Project, tmp_path: Path) -> Project:
    return project_template.copy(tmp_path / "project")


@pytest.fixture(scope="session")
def moving_template(template: Scene, tmp_path_factory: pytest.TempPathFactory) -> Moving:
    return build_moving(template, tmp_path_factory.mktemp("moving") / "base")


@pytest.fixture(scope="session")
def stacked_template(tmp_path_factory: pytest.TempPathFactory) -> Stacked:
    return build_stacked(tmp_path_factory.mktemp("stacked") / "base")


@pytest.fixture(scope="session")
def naming_template(stacked_template: Stacked, tmp_path_factory: pytest.TempPathFactory) -> Naming:
    return build_naming(stacked_template, tmp_path_factory.mktemp("naming") / "base")


@pytest.fixture(scope="session")
def leaving_template(template: Scene, stacked_template: Stacked, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return build_leaving(template, stacked_template, tmp_path_factory.mktemp("leaving") / "base")


@pytest.fixture
def naming(naming_template: Naming, tmp_path: Path) -> Naming:
    return naming_template.copy(tmp_path / "base")


@pytest.fixture(scope="session")
def with_base_template(template: Scene, stacked_template: Stacked, tmp_path_factory: pytest.TempPathFactory) -> Moving:
    """An archive of a delta version with its base, which the root lacks."""
    return build_moving(stacked_template, tmp_path_factory.mktemp("with-base") / "base", into=template)


@pytest.fixture(scope="session")
def without_base_template(stacked_template: Stacked, tmp_path_factory: pytest.TempPathFactory) -> Moving:
    """An archive of a delta version without its base, which the root has."""
    return build_moving(stacked_template, tmp_path_factory.mktemp("without") / "base", without_base=True)


@pytest.fixture
def moving(moving_template: Moving, tmp_path: Path) -> Moving:
    return moving_template.copy(tmp_path / "base")
