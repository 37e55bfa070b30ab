"""The extra for GPUs: it resolves beside the others, and its wheels replace those for the CPU by number."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from codequarry.schemas.install_hints import REPLACEMENTS

PROJECT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_the_extra_holds_a_replacement_for_each_library() -> None:
    names = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in EXTRAS["gpu"]}
    assert len(names) == len(REPLACEMENTS)
    assert all(names & set(others) for others in REPLACEMENTS.values())


@pytest.mark.models
@pytest.mark.skipif(sys.platform != "linux", reason="the wheels are for Linux")
def test_the_extra_resolves_beside_the_models(tmp_path: Path) -> None:
    """Nothing is installed; where no registry answers, nothing can be said."""
    report = tmp_path / "report.json"
    base = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--report", str(report)]
    done = subprocess.run(
        [*pip, "--retries=1", *base, *EXTRAS["models"], *EXTRAS["gpu"]], check=False, capture_output=True, text=True
    )
    if not report.is_file() and "ResolutionImpossible" not in done.stderr:
        pytest.skip(f"no registry answered: {done.stderr.strip().splitlines()[-1:]}")
    assert done.returncode == 0, done.stderr
    found = {
        each["metadata"]["name"].lower(): each["metadata"]["version"]
        for each in json.loads(report.read_text(encoding="utf-8"))["install"]
    }
    for name, others in REPLACEMENTS.items():
        (other,) = found.keys() & set(others)
        assert found[other].split(".")[0] == found[name].split(".")[0]


def test_an_installed_wheel_for_a_gpu_can_be_imported_without_a_driver() -> None:
    """A wheel that another one overwrote is there by its name and not by its modules."""
    try:
        metadata.distribution("faiss-gpu")
    except metadata.PackageNotFoundError:
        pytest.skip("faiss-gpu is not installed here; `make test-gpu` installs it")
    import faiss

    assert hasattr(faiss, "StandardGpuResources"), "faiss-cpu lies over faiss-gpu: see docs/MODELS.md"
    assert faiss.get_num_gpus() >= 0
