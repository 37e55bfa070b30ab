"""Late interaction is measured by a command and an asset, and leaves later rankings where it does not help."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codequarry.pipelines.cli import root as cli
from codequarry.pipelines.evaluation import late_gain
from codequarry.pipelines.evaluation.late_gain import LateGain, measure_late
from codequarry.pipelines.indexes.ranking_profile import late_file, read_late
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.ranking_profile import read_profile
from codequarry.schemas.settings.load import Settings
from tests.pipelines.evaluation.library import write_library
from tests.pipelines.indexes.test_warp_bundle import warp_settings

BETTER = LateGain(40, 0.5, 0.6, 0.02, 0.18)
WORSE = LateGain(40, 0.6, 0.5, -0.18, -0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_library(tmp_path / "app")
    return tmp_path


def late_weights(version: Path) -> set[float]:
    return {one.late for one in read_profile(BundlePaths(version).ranking.read_bytes()).classes.values()}


def write_settings(settings: Settings, home: Path) -> Path:
    file = home / "settings.toml"
    file.write_text(
        f'[paths]\nstore = "{settings.paths.store}"\nwork = "{settings.paths.work}"\n'
        f'[bundle]\nroot = "{settings.bundle.root}"\n[scip]\nenabled = false\n[warp]\nenabled = true\n'
        "[retrieval]\nenabled = false\n"
    )
    return file


@pytest.mark.slow
def test_the_command_measures_and_the_next_version_obeys(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(late_gain, "LEAST_QUESTIONS", 1)
    file = write_settings(warp_settings(home), home)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["codequarry", *arguments, "--settings", str(file)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        out, err = capsys.readouterr()
        return out if "--json" in arguments else out + err

    verdict = json.loads(run("tune", "late", str(home / "app"), "--json"))
    assert "NDCG@10 over" in verdict["said"]
    assert verdict["said"].startswith("on: ") == verdict["helps"]
    told = " ".join(run("index", str(home / "app"), "--verbose").split())
    assert f"late interaction in the ranking: {verdict['said']}" in told
    (version,) = (home / "bundles" / "versions").glob("[!.]*")
    assert (0.4 in late_weights(version)) == verdict["helps"]


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> list[LateGain]:
    """What measuring finds, one entry each time."""
    queue: list[LateGain] = []
    monkeypatch.setattr(late_gain, "late_gain", lambda _settings, _progress: queue.pop(0))
    return queue


def test_where_it_does_not_help_the_version_ranks_without_it(
    home: Path, gains: list[LateGain], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = warp_settings(home)
    before = index_repositories(settings)
    gains.append(WORSE)
    verdict = measure_late(settings)
    assert verdict.said == "off: 0.600 -> 0.500 NDCG@10 over 40 mined questions (-0.180 to -0.020)"
    report = index_repositories(settings)
    assert not report.unchanged
    assert report.manifest.version != before.manifest.version
    assert report.manifest.warp is not None
    assert report.manifest.warp.measured == verdict.said
    assert late_weights(report.path) == {0.0}

    def explained(*options: str) -> dict[str, Any]:
        ask = ["search", "who lends books to readers", "--root", str(home / "bundles"), "--json", *options]
        monkeypatch.setattr(sys, "argv", ["codequarry", *ask])
        with pytest.raises(SystemExit):
            cli.main()
        return json.loads(capsys.readouterr().out)["results"][0]["metadata"]["explain"]

    assert explained()["scoring"]["late"] == "skipped: it has no weight"
    assert explained("--channel", "warp")["channels"].keys() == {"warp"}


def test_where_it_helps_it_stays(home: Path, gains: list[LateGain]) -> None:
    settings = warp_settings(home)
    gains.append(BETTER)
    measure_late(settings)
    report = index_repositories(settings)
    assert report.manifest.warp is not None
    assert report.manifest.warp.measured.startswith("on: 0.500 -> 0.600")
    assert 0.4 in late_weights(report.path)
    assert index_repositories(settings).unchanged


def test_nobody_measured_and_the_profile_stays(home: Path) -> None:
    report = index_repositories(warp_settings(home))
    assert report.manifest.warp is not None
    assert report.manifest.warp.measured == ""
    assert 0.4 in late_weights(report.path)


def test_too_few_questions_decide_nothing(home: Path, gains: list[LateGain]) -> None:
    settings = warp_settings(home)
    gains.append(BETTER._replace(questions=19))
    verdict = measure_late(settings)
    assert verdict.helps
    assert verdict.said.startswith("undecided: 19 questions")


def test_settings_without_late_interaction_are_refused(home: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no late interaction"):
        measure_late(warp_settings(home, enabled=False))


def test_a_damaged_verdict_counts_as_none(home: Path, gains: list[LateGain]) -> None:
    settings = warp_settings(home)
    gains.append(WORSE)
    verdict = measure_late(settings)
    assert read_late(settings) == verdict
    for damage in (b"", b"[]", b'{"helps": true}'):
        late_file(settings).write_bytes(damage)
        assert read_late(settings) is None


def test_the_sample_bounds_what_is_indexed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_gain, "SAMPLE_BYTES", 4_000)
    monkeypatch.setattr(late_gain, "LEAST_QUESTIONS", 1)
    monkeypatch.setattr(late_gain, "ndcg_by", lambda engine, *_: np.full(3, engine.bundle.manifest.counts.files))
    settings = warp_settings(home)
    gain = late_gain.late_gain(settings, lambda *_: None)
    copied = [file for file in (home / "work" / "late" / "repositories").rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in copied) <= 4_000
    assert gain.without == len(copied)
