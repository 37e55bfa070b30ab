"""Late interaction is measured before a version is staged, and leaves the ranking where it does not help."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codequarry.assets import late_gain as measuring
from codequarry.pipelines import late_gain
from codequarry.pipelines.build import index_repositories
from codequarry.pipelines.late_gain import LateGain, measure_late
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.ranking import read_profile
from codequarry.schemas.settings import Settings
from codequarry.serving import cli
from tests.evaluation.library import write_library
from tests.pipelines.test_warp_bundle import warp_settings

BETTER = LateGain(40, 0.5, 0.6, 0.02, 0.18)
WORSE = LateGain(40, 0.6, 0.5, -0.18, -0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_library(tmp_path / "app")
    return tmp_path


def late_weights(version: Path) -> set[float]:
    return {one.late for one in read_profile(BundlePaths(version).ranking.read_bytes()).classes.values()}


@pytest.mark.slow
def test_it_is_measured_by_the_reader_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = warp_settings(home, measure=True)
    monkeypatch.setattr(late_gain, "LEAST_QUESTIONS", 1)
    monkeypatch.setattr(measuring, "LEAST_QUESTIONS", 1)
    report = index_repositories(settings)
    assert report.late is not None
    assert report.manifest.warp is not None
    said = report.manifest.warp.measured
    assert said == report.late.verdict.said
    assert "NDCG@10 over" in said
    assert said.startswith("on: ") == report.late.verdict.helps
    assert (0.4 in late_weights(report.path)) == report.late.verdict.helps
    assert index_repositories(settings).unchanged
    again = index_repositories(settings, force=True)
    assert again.late is not None
    assert again.late.reused
    assert again.manifest.digest == report.manifest.digest


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[LateGain]:
    """What the program that measures finds; one that was asked is gone."""
    gains: list[LateGain] = []
    monkeypatch.setattr(measuring, "late_gain", lambda _settings, _progress: gains.pop(0))
    return gains


def test_where_it_does_not_help_the_version_ranks_without_it(
    home: Path, told: list[LateGain], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told.append(WORSE)
    report = index_repositories(warp_settings(home, measure=True))
    assert report.manifest.warp is not None
    assert report.manifest.warp.measured == (
        "off: 0.600 -> 0.500 NDCG@10 over 40 mined questions (-0.180 to -0.020)"
    )  # fmt: skip
    assert late_weights(report.path) == {0.0}

    def explained(*options: str) -> dict[str, Any]:
        ask = [
            "codequarry",
            "search",
            "who lends books to readers",
            "--root",
            str(home / "bundles"),
            "--json",
            *options,
        ]
        monkeypatch.setattr(sys, "argv", ask)
        with pytest.raises(SystemExit):
            cli.main()
        return json.loads(capsys.readouterr().out)["results"][0]["metadata"]["explain"]

    assert explained()["scoring"]["late"] == "skipped: it has no weight"
    assert explained("--channel", "warp")["channels"].keys() == {"warp"}


def test_where_it_helps_it_stays(home: Path, told: list[LateGain]) -> None:
    told.append(BETTER)
    settings = warp_settings(home, measure=True)
    report = index_repositories(settings)
    assert report.manifest.warp is not None
    assert report.manifest.warp.measured.startswith("on: 0.500 -> 0.600")
    assert 0.4 in late_weights(report.path)
    off = index_repositories(settings.model_copy(update={"warp": settings.warp.model_copy(update={"measure": False})}))
    assert off.manifest.warp is not None
    assert (off.manifest.warp.measured, off.late) == ("", None)


@pytest.mark.parametrize("found", [BETTER._replace(questions=19), InvalidArgumentError("nothing", suggestion="more")])
def test_too_little_to_tell_decides_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, found: LateGain | InvalidArgumentError
) -> None:
    def measured(_settings: Settings, _progress: object) -> LateGain:
        if isinstance(found, InvalidArgumentError):
            raise found
        return found

    monkeypatch.setattr(measuring, "late_gain", measured)
    report = index_repositories(warp_settings(home, measure=True))
    assert report.late is not None
    assert report.late.verdict.helps
    assert report.late.verdict.said.startswith("not measured: ")
    assert 0.4 in late_weights(report.path)


def test_a_damaged_result_is_measured_again(home: Path, told: list[LateGain]) -> None:
    settings = warp_settings(home, measure=True)
    told.append(BETTER)
    index_repositories(settings)
    (result,) = late_gain.late_folder(settings).glob("[!.]*.json")
    for damage in (b"", b"[]", b'{"helps": true}'):
        result.write_bytes(damage)
        told.append(WORSE)
        report = measure_late(settings)
        assert report is not None
        assert (report.reused, report.verdict.helps) == (False, False)
    assert measure_late(settings) is not None
    without = settings.model_copy(update={"warp": settings.warp.model_copy(update={"measure": False})})
    assert measure_late(without) is None


def test_the_sample_bounds_what_is_indexed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "SAMPLE_BYTES", 4_000)
    monkeypatch.setattr(measuring, "LEAST_QUESTIONS", 1)
    monkeypatch.setattr(measuring, "ndcg_by", lambda engine, *_: np.full(3, engine.bundle.manifest.counts.files))
    settings = warp_settings(home, measure=True)
    gain = measuring.late_gain(settings, lambda *_: None)
    copied = [file for file in (home / "work" / "late" / "repositories").rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in copied) <= 4_000
    assert gain.without == len(copied)
