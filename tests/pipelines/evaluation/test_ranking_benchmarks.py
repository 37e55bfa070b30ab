"""The benchmarks of misspelt names, of parts of names and of several repositories, on repositories of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.quality.many_repositories import main
from benchmarks.quality.misspelt import misspelt
from benchmarks.quality.name_fragments import CUTS, fragments
from codequarry.pipelines.measure.name_questions import IDENTIFIER, LITERAL
from codequarry.pipelines.measure.questions import Question, Target
from codequarry.serving.text.typos import is_near
from tests.pipelines.repositories import git


def test_every_identifier_is_asked_with_four_slips_each_one_key_away_and_in_another_convention() -> None:
    names = ["parse_price", "HTTPServer", "aa_bb_aa"]
    target = (Target("shop.py"),)
    questions = [Question(name, IDENTIFIER, name, target) for name in names]
    for seed in range(20):
        asked = misspelt([*questions, Question("L", LITERAL, "no such price", target)], seed)
        assert [one.id for one in asked] == [name for name in names for _ in range(6)]
        slips = [one for one in asked if "convention" not in one.kind]
        assert all(is_near(one.id.lower(), one.query.lower()) or one.id.lower() == one.query.lower() for one in slips)
        assert all(one.id != one.query for one in asked)
        others = [one.query for one in asked if one.kind == "another convention"]
        assert others == ["parsePrice", "http_server", "aaBbAa"]
    assert misspelt(questions, 1) == misspelt(questions, 1) != misspelt(questions, 2)


def test_fragments_are_parts_of_names_that_no_other_name_holds() -> None:
    names = ["parse_price_list", "HTTPServerPool", "read_list", "alone"]
    target = (Target("shop.py"),)
    questions = [Question(name, IDENTIFIER, name, target) for name in names]
    for seed in range(20):
        asked = fragments([*questions, Question("L", LITERAL, "no such price", target)], names, seed)
        assert {one.id for one in asked} <= {*names[:3]}
        assert all(one.query in one.id and 5 <= len(one.query) < len(one.id) for one in asked)
        assert all(sum(one.query.lower() in name.lower() for name in names) == 1 for one in asked)
        words = {(one.id, one.kind): one.query for one in asked}
        assert words["parse_price_list", "its first word left out"] == "price_list"
        assert words["HTTPServerPool", "its last word left out"] == "HTTPServer"
    assert {one.kind for one in asked} == set(CUTS)


@pytest.mark.slow
def test_two_repositories_in_one_bundle(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clones = tmp_path / "clones"
    listed = [
        {"name": name, "url": f"https://example.org/us/{name}.git", "revision": git(library, "rev-parse", "HEAD")}
        for name in ("harbour", "meadow")
    ]
    (tmp_path / "annotations").mkdir()
    (tmp_path / "repos.json").write_text(json.dumps(listed))
    for entry in listed:
        shutil.copytree(library, clones / entry["name"])
        labels = [{"query": "where is a loan extended", "relevant": ["library/loans.py"], "secondary": []}]
        labels[0]["category"] = "semantic"
        (tmp_path / "annotations" / f"{entry['name']}.json").write_text(json.dumps(labels))
    folders = ["--annotations", str(tmp_path), "--repositories", str(clones), "--home", str(tmp_path / "home")]
    main([*folders, "--only", "harbour", "--only", "meadow"])
    rows = [
        line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith(("| as annotated", "| Q"))
    ]
    found = {(form.strip("| "), float(factor)): float(mean) for form, factor, mean, _ in rows}
    # Equal repositories are equal, until one is named.
    assert found["as annotated", 1.0] == found["as annotated", 0.6] < 1
    assert found["QUERY in NAME", 0.6] == 1
    with pytest.raises(SystemExit, match="of harbour, expected two or more"):
        main([*folders, "--only", "harbour"])
