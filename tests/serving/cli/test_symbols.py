from __future__ import annotations

import json


def test_definition_prints_places_counted_from_one(run, symbol_root) -> None:
    code, out, err = run("definition", "Index.open", "--root", symbol_root)
    assert (code, err) == (0, "")
    first, signature, doc = out.splitlines()
    assert first == "quarry/io/index.py:7:9  method Index.open"
    assert (signature.strip(), doc.strip()) == ("def open(self, path)", "Open it.")


def test_definition_takes_a_place_counted_from_one(run, symbol_root) -> None:
    code, out, _ = run("definition", "io/store.py:7:24", "--json", "--root", symbol_root)
    (result,) = json.loads(out)["results"]
    assert (code, result["uri"], result["start_line"]) == (0, "quarry/io/index.py", 6)


def test_definition_takes_kind_filters_and_limit(run, symbol_root) -> None:
    _, out, err = run("definition", "open", "--lang", "python", "-m", 1, "--root", symbol_root)
    assert out.count(":") == 2
    assert err == "note: 1 more; raise --limit\n"
    _, out, _ = run(
        "definition", "open", "--kind", "key", "--exclude", "*.py", "--repo", "quarry", "--root", symbol_root
    )
    assert out.startswith("quarry/config.json:1:3  key open  by name\n")


def test_references_mark_what_is_known_by_name_alone(run, symbol_root) -> None:
    code, out, err = run("references", "Index.open", "--role", "call", "--root", symbol_root)
    assert code == 0
    assert out.splitlines()[0] == "  quarry/io/store.py:7:24  call  return Index().open(os.path, path)"
    assert out.splitlines()[-1] == "? quarry/io/store.py:11:28  call  store.open('x'); other.open('y')"
    assert err == "note: '?' marks places that are known by name alone\n"
    _, out, err = run("references", "open", "--precise", "--definitions", "--root", symbol_root)
    assert out.startswith("  quarry/io/index.py:7:9  definition  def open(self, path):\n")
    assert "?" not in out
    assert "4 definitions are meant" in err


def test_nothing_found_is_said(run, symbol_root) -> None:
    for command in ("definition", "references"):
        code, out, err = run(command, "stoer", "--root", symbol_root)
        assert (code, out) == (1, "")
        assert err == "note: no definition has this name; near names: Store\n"


def test_a_place_that_no_file_has_is_refused(run, symbol_root) -> None:
    code, out, err = run("definition", "io/nowhere.py:7", "--root", symbol_root)
    assert (code, out) == (1, "")
    assert err.startswith("error: no such file")
