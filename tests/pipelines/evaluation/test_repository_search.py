"""The benchmark of annotated repositories, on a repository and annotations of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality.repository_search import _all_but, main
from codequarry.pipelines.ignore.rules import settings_patterns
from tests.pipelines.repositories import git


@pytest.mark.slow
def test_ndcg_of_a_clone_below_its_root_and_whole(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    revision = git(library, "rev-parse", "HEAD")
    entry = {"name": "library", "language": "python", "revision": revision, "benchmark_root": "library"}
    lost = {**entry, "name": "lost", "url": "https://example.org/them/lost.git"}
    (tmp_path / "annotations").mkdir()
    listed = [{**entry, "url": "https://example.org/us/library.git"}, lost]
    (tmp_path / "repos.json").write_text(json.dumps(listed))
    labels = [
        {"query": "find_place", "relevant": ["library/loans.py"], "secondary": [], "category": "symbol"},
        {"query": "zzz", "relevant": [{"path": "gone.py", "start_line": 1, "end_line": 2}], "secondary": [],
         "category": "semantic"},
    ]  # fmt: skip
    (tmp_path / "annotations" / "library.json").write_text(json.dumps(labels))
    arguments = [
        "--annotations",
        str(tmp_path),
        "--repositories",
        str(library.parent),
        "--home",
        str(tmp_path / "home"),
    ]
    main([*arguments, "--channel", "bm25", "--out", str(tmp_path / "out.json")])
    printed = capsys.readouterr().out
    assert "| library | python | 2 | 0.500 | 0.500 |" in printed
    assert "| symbol | 1 | 1.000 | 1.000 |" in printed
    assert "| semantic | 1 | 0.000 | 0.000 |" in printed
    assert "left out, no clone with the revision: lost" in printed
    asked = json.loads((tmp_path / "out.json").read_text())
    below = [place for one in asked if one["view"] == "root" for place in one["returned"]]
    assert all(place.startswith("library/library/") for place in below)
    made = {folder: folder.stat().st_mtime_ns for folder in (tmp_path / "home").glob("*/bundles/CURRENT")}
    assert len(made) == 2
    main([*arguments, "--channel", "bm25"])
    assert made == {folder: folder.stat().st_mtime_ns for folder in made}


def test_everything_but_one_folder_is_left_out() -> None:
    spec = settings_patterns(_all_but("src/app"))
    left_out = {path: spec.match_file(path) for path in ("src/app/a.py", "src/app/b/c.py", "src/x.py", "y.py", "app/z")}
    assert left_out == {"src/app/a.py": False, "src/app/b/c.py": False, "src/x.py": True, "y.py": True, "app/z": True}
    assert _all_but("") == ()
