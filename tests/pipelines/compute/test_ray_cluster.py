"""The engine `ray`: the same version as in one process, over one and three nodes, and with a node that is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from tests.pipelines.compute.ray_nodes import RayNodes
from tests.pipelines.conftest import MAIN, Run
from tests.pipelines.repositories import commit

NAMES = tuple(f"repository_{number:02}" for number in range(6))
_PATIENCE_S = 120.0

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-fleet installs it")


def write_settings(cwd: Path, name: str, **compute: object) -> list[str]:
    """Write settings with folders of their own; return the words of the command."""
    # Every second repository is fetched by a node, the others are read on this machine.
    places = [
        {"url": f"file://{cwd}/{each}", "name": each} if number % 2 else {"path": each, "ref": "HEAD"}
        for number, each in enumerate(NAMES)
    ]
    sections = {
        "sources": {"repositories": places},
        "retrieval": {"enabled": False},
        "paths": {"work": f"{name}/work", "store": f"{name}/store"},
        "bundle": {"root": f"{name}/bundles"},
        "compute": {"node_folder": f"{cwd}/{name}/nodes", **compute},
    }
    lines: list[str] = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    (cwd / f"{name}.toml").write_text("\n".join(lines) + "\n")
    return ["index", "--settings", f"{name}.toml"]


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}"
    return json.dumps(value)


def digest(cwd: Path, name: str) -> str:
    root = BundleRoot(cwd / name / "bundles")
    version = root.current.read_text().split()[0]
    return json.loads(root.version(version).manifest.read_text())["digest"]


def start(cwd: Path, words: list[str], given: Mapping[str, str]) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CODEQUARRY__")}
    environment |= given
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=10 * _PATIENCE_S)
    assert process.returncode == 0, said
    return said


@needs_ray
@pytest.mark.slow
@pytest.mark.ray_nodes
def test_all_engines_make_the_same_version(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        files = {
            f"part_{part}.py": f"def {name}_{part}(value):\n    return value + {part}\n" for part in range(60 + number)
        }
        commit(tmp_path / name, {**files, "common.py": "def common_to_all():\n    return 1\n"})
    seconds: dict[str, float] = {}

    def timed(name: str, given: Mapping[str, str] = MappingProxyType({}), **compute: object) -> str:
        started = time.perf_counter()
        finish(start(tmp_path, write_settings(tmp_path, name, **compute), given))
        seconds[name] = time.perf_counter() - started
        return digest(tmp_path, name)

    expected = timed("in_process", engine="in_process")
    digests = {"processes": timed("processes", engine="processes", processes=2)}
    digests["one_node"] = timed("one_node", engine="ray", processes=2)
    with RayNodes(3) as nodes:
        digests["three_nodes"] = timed("three_nodes", nodes.environment, engine="ray", address=nodes.address)
        worked = {each.name for each in (tmp_path / "three_nodes" / "nodes").iterdir()}
        assert len(worked) == 3  # Ray names the head by another address of this machine
        assert {"127.0.0.2", "127.0.0.3"} < worked
        lost = start(tmp_path, write_settings(tmp_path, "lost", engine="ray", address=nodes.address), nodes.environment)
        scratch, until = tmp_path / "lost" / "nodes" / "127.0.0.2" / "scratch", time.monotonic() + _PATIENCE_S
        while not list(scratch.glob("*/repositories")):
            assert lost.poll() is None and time.monotonic() < until, lost.communicate()[0]
            time.sleep(0.01)
        nodes.kill("127.0.0.2")
        finish(lost)
        digests["lost"] = digest(tmp_path, "lost")
    sys.stdout.write(f"digest {expected}; seconds: {json.dumps({name: round(s, 1) for name, s in seconds.items()})}\n")
    assert digests == dict.fromkeys(digests, expected)


@needs_ray
def test_a_cluster_that_does_not_answer_is_told(run: Run, tmp_path: Path) -> None:
    cwd = tmp_path / "cwd"
    for name in NAMES:
        commit(cwd / name, {"one.py": "def one():\n    return 1\n"})
    said = run(*write_settings(cwd, "nobody", engine="ray", address="127.0.0.1:9"), own_process=True)
    assert said.returncode != 0
    assert "no Ray cluster answers at [compute] address '127.0.0.1:9'" in " ".join(said.stderr.split())


def test_without_ray_the_install_line_is_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codequarry.pipelines.compute.ray_cluster.find_spec", lambda _: None)
    said = run(*write_settings(tmp_path / "cwd", "none", engine="ray"))
    assert said.returncode != 0
    assert "pip install 'codequarry[ray]'" in said.stderr
