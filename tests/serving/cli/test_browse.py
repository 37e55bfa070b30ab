from __future__ import annotations

import json


def test_outline(run, symbol_root) -> None:
    code, out, _ = run("outline", "io/index.py", "--root", symbol_root)
    assert code == 0
    assert "   7-9    def open(self, path)" in out.split("\n")
    _, out, _ = run("outline", "io", "--json", "--root", symbol_root)
    assert [file["uri"] for file in json.loads(out)["files"]] == ["quarry/io/index.py", "quarry/io/store.py"]


def test_files(run, symbol_root) -> None:
    code, out, err = run("files", "**/*.py", "--limit", 1, "--root", symbol_root)
    assert code == 0
    assert out.split("\n")[0] == "quarry/io/  index.py"
    assert "2 files left out" in err
    _, out, _ = run("files", "--class", "test", "--json", "--root", symbol_root)
    assert [file["uri"] for file in json.loads(out)["files"]] == ["quarry/tests/test_index.py"]


def test_overview(run, symbol_root) -> None:
    code, out, _ = run("overview", "--root", symbol_root)
    assert code == 0
    assert out.startswith("gateway  1 file: go 100% (1 file)\n")
    _, out, _ = run("overview", "--repo", "quarry", "--json", "--root", symbol_root)
    assert [one["name"] for one in json.loads(out)["repositories"]] == ["quarry"]


def test_explore(run, symbol_root) -> None:
    code, out, err = run("explore", "where is the index opened", "--max-tokens", 1, "--root", symbol_root)
    assert code == 0
    assert out.startswith("quarry/io/")
    assert len(out) <= 1_024 + 1  # and the line break at the end
    assert "--max-tokens clamped to 256" in err
    _, out, _ = run("explore", "open", "--lang", "go", "--json", "--root", symbol_root)
    assert {one["uri"] for one in json.loads(out)["places"]} == {"gateway/main.go"}
    code, out, _ = run("explore", " ", "--root", symbol_root)
    assert (code, out.startswith("nothing found")) == (1, True)


def test_what_is_not_there(run, symbol_root) -> None:
    for command in ("outline", "files"):
        code, _, err = run(command, "nowhere", "--root", symbol_root)
        assert code == 1
        assert err.startswith("error: no such ")
