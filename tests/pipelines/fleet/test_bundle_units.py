"""Bundles of a fleet on three nodes of Ray: the generation that one process makes, built side by side."""

from __future__ import annotations

import copy
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pipelines.compute.ray_nodes import RayNodes
from tests.pipelines.conftest import Run
from tests.pipelines.fleet.fleets import Fleet


@pytest.mark.slow
@pytest.mark.ray_nodes
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-fleet installs it")
def test_nodes_build_the_bundles_that_one_process_builds(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own_process(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return run(*words, own_process=True)

    alone = Fleet(run, tmp_path / "cwd", f"file://{tmp_path}/alone/fleet")
    alone("build")
    expected = {name: entry.digest for name, entry in alone.current.bundles.items()}
    # The same commits: a fleet that is made anew commits again.
    nodes_fleet = copy.copy(alone)
    nodes_fleet.run, nodes_fleet.url = own_process, f"file://{tmp_path}/shared/fleet"
    with RayNodes(3) as nodes:
        for name, value in nodes.environment.items():
            monkeypatch.setenv(name, value)
        nodes_fleet.write(
            "[compute]", 'engine = "ray"', f'address = "{nodes.address}"', f'node_folder = "{tmp_path}/nodes"'
        )
        said = nodes_fleet("build")
        assert len(expected) >= 3
        assert {name: entry.digest for name, entry in nodes_fleet.current.bundles.items()} == expected
        assert said.count("is built anew") == len(expected)
        built = [each.parent.parent.name for each in (tmp_path / "nodes").glob("*/fleet/bundles/*/bundles/CURRENT")]
        assert sorted(built) == sorted(expected)  # each bundle once
        assert len({each.name for each in (tmp_path / "nodes").iterdir()}) == 3
        nodes_fleet.save("ant", "new")
        assert nodes_fleet("build").count("is built anew") == 1
    assert nodes_fleet.current.generation == 2
