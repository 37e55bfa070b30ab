"""``codequarry diff`` as a person runs it: two versions of one repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.serving.files.version_order import ordered_versions
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit

OPEN = 'def open_door(key):\n    """Open the front door with a key."""\n    return Lock(key).turn(left=True)\n'
SHUT = 'def shut_window(room):\n    """Shut every window of a room."""\n    return [each.shut() for each in room]\n'
RING = 'def ring_bell(times):\n    """Ring the bell at the door several times."""\n    return Bell().ring(times)\n'


@pytest.fixture
def versions(run: Run, tmp_path: Path) -> tuple[Path, list[str]]:
    """A bundle root with two versions: a file moved, one changed, one came."""
    app = tmp_path / "app"
    commit(app, {"doors.py": OPEN, "windows.py": SHUT})
    root = tmp_path / "bundles"
    assert run("index", app, "--root", root).returncode == 0
    (app / "windows.py").unlink()
    commit(app, {"doors.py": "import locks\n\n\n" + OPEN, "house/windows.py": SHUT, "bell.py": RING})
    assert run("index", app, "--root", root).returncode == 0
    return root, ordered_versions(BundleRoot(root))  # by name, two of one second may be the other way round


def test_chunks_files_and_results_between_two_versions(
    versions: tuple[Path, list[str]], run: Run, tmp_path: Path
) -> None:
    root, names = versions
    queries = tmp_path / "queries.txt"
    queries.write_text('bell at the door\n\n{"query": "shut windows", "relevant": []}\nbell at the door\n')
    done = run("diff", "--root", root, "--queries", queries, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [report["before"], report["after"]] == names
    assert report["files"] == {
        "added": ["app/bell.py"],
        "removed": [],
        "changed": ["app/doors.py"],
        "moved": [{"before": "app/windows.py", "after": "app/house/windows.py"}],
    }
    counts = report["repositories"]["app"]
    assert (counts["before"], counts["moved"]) == (2, 1)
    assert counts["after"] == counts["added"] + counts["moved"] + counts["shifted"] + counts["unchanged"]
    (moved,) = report["chunks"]["moved"]
    assert moved["after"]["place"].startswith("app/house/windows.py:")
    assert report["queries"] == 2
    movers = {(one["query"], one["place"].split(":")[0]): one for one in report["results"]["movers"]}
    bell = movers["bell at the door", "app/bell.py"]
    assert (bell["before"], bell["after"], bell["chunk"]) == (None, 1, "new")
    assert re.fullmatch(r"(channel|chunk|file|factor) \w+ \+0\.\d+", bell["through"])
    assert bell["score_before"] is None
    assert 0 < bell["score_after"] <= 1
    # What moved and keeps its rank is the same result, not one that left and another that entered.
    assert ("shut windows", "app/windows.py") not in movers

    told = run("diff", *names, "--root", root, "--queries", queries)
    assert told.returncode == 0, told.stderr
    for shown in (f"{names[0]} -> {names[1]}", "files added (1): app/bell.py", "2 queries", "app/bell.py:1-3", "new"):
        assert shown in told.stdout


def test_a_version_and_itself(versions: tuple[Path, list[str]], run: Run, tmp_path: Path) -> None:
    root, names = versions
    queries = tmp_path / "queries.txt"
    queries.write_text("open the door\n")
    done = run("diff", names[1], "current", "--root", root, "--queries", queries, "--json")
    report = json.loads(done.stdout)
    assert report["results"] == {"entered": 0, "left": 0, "moved": 0, "movers": []}
    assert report["chunks"]["added"] == report["chunks"]["removed"] == report["chunks"]["moved"] == []
    back = json.loads(run("diff", "current", "previous", "--root", root, "--json").stdout)
    assert back["files"]["removed"] == ["app/bell.py"]


def test_mistakes_in_naming_versions_and_queries(versions: tuple[Path, list[str]], run: Run, tmp_path: Path) -> None:
    root, names = versions
    unknown = run("diff", "20200101T000000Z-00000000", "--root", root)
    assert unknown.returncode == 1
    assert f"no such version; there are: {', '.join(sorted(names))}" in unknown.stderr.replace("\n", " ")
    missing = run("diff", "--root", root, "--queries", tmp_path / "none.txt")
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr
    (tmp_path / "empty.txt").write_text("\n\n")
    assert "found no query in" in run("diff", "--root", root, "--queries", tmp_path / "empty.txt").stderr
    (tmp_path / "odd.jsonl").write_text('{"question": "x"}\n')
    odd = run("diff", "--root", root, "--queries", tmp_path / "odd.jsonl")
    assert "odd.jsonl, line 1: found an object without a query" in odd.stderr.replace("\n", " ")


def test_there_is_nothing_before_the_first_version(run: Run, tmp_path: Path) -> None:
    nothing = run("diff", "--root", tmp_path / "empty")
    assert nothing.returncode == 2
    assert "no bundle is published under" in nothing.stderr
    commit(tmp_path / "app", {"doors.py": OPEN})
    assert run("index", tmp_path / "app", "--root", tmp_path / "bundles").returncode == 0
    first = run("diff", "--root", tmp_path / "bundles")
    assert first.returncode == 1
    assert "no version before the current one" in first.stderr
