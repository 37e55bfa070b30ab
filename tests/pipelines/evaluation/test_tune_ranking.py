"""``codequarry tune ranking``: what is fitted is kept only when questions it never saw are answered better."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.evaluation.tune_ranking import TUNED, RankingVerdict, fit_profile, write_profile
from codequarry.pipelines.store.workspace import silent
from codequarry.schemas.ranking_profile import BUILT_IN, RankingProfile, read_profile
from tests.pipelines.conftest import Run
from tests.pipelines.corpus import write_shop


@given(st.floats(0.05, 5), st.floats(0, 1))
def test_fitting_climbs_towards_what_the_judge_wants_and_stays_a_profile(card: float, test: float) -> None:
    def judge(profile: RankingProfile) -> float:
        return -abs(profile.file.card - card) - abs(profile.factors.test - test)

    found = fit_profile(BUILT_IN, judge, budget_s=60, progress=silent)
    assert judge(found) >= judge(BUILT_IN)
    assert found.name == TUNED
    assert read_profile(found.model_dump_json().encode()) == found
    others = {"card": BUILT_IN.file.card}
    assert found.file.model_copy(update=others) == BUILT_IN.file


def test_no_time_no_change() -> None:
    found = fit_profile(BUILT_IN, lambda profile: profile.file.card, budget_s=0, progress=silent)
    assert found == BUILT_IN.model_copy(update={"name": TUNED})


@pytest.mark.parametrize(("low", "better"), [(0.01, True), (0.0, False), (-0.02, False)])
def test_only_what_is_better_beyond_doubt_is_better(low: float, better: bool, tmp_path: Path) -> None:
    verdict = RankingVerdict(BUILT_IN, 50, 50, 0.5, 0.6, (low, 0.2))
    assert verdict.better is better
    write_profile(verdict, tmp_path / "deep" / "ranking.json")
    assert read_profile((tmp_path / "deep" / "ranking.json").read_bytes()) == BUILT_IN


WORDS = "amber basalt cedar dune elm fern granite heath iris jade kelp larch moss nettle oak pine quartz reed".split()


def documented(season: str) -> str:
    """A file of functions, each documented in its own words."""
    return "\n\n".join(
        f'def gather_{season}_{word}(stock):\n    """Gather the {word} of a {season} before winter comes."""\n'
        f'    return [one for one in stock if one == "{season} {word}"]'
        for word in WORDS[:9]
    )


@pytest.mark.slow
def test_through_the_command_line(tmp_path: Path, run: Run) -> None:
    (tmp_path / "app").mkdir()
    for word in WORDS:
        (tmp_path / "app" / f"{word}_store.py").write_text(documented(word))
    done = run("tune", "ranking", tmp_path / "app", "--out", tmp_path / "ranking.json", "--budget", 5, "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert min(verdict["fitted_on"], verdict["held_out"]) >= 20
    assert verdict["better"] == (verdict["interval"][0] > 0) == (tmp_path / "ranking.json").exists()
    assert verdict["profile"]["name"] == TUNED


def test_too_little_to_learn_from_is_said(tmp_path: Path, run: Run) -> None:
    done = run("tune", "ranking", write_shop(tmp_path), "--out", tmp_path / "ranking.json")
    assert done.returncode > 0
    assert "questions can be mined, expected 40 or more" in " ".join(done.stderr.split())
    assert not (tmp_path / "ranking.json").exists()
