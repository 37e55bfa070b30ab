from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.wire.search import WITH_CODE
from codequarry.serving.channels import query_encoder
from codequarry.serving.cli.finding.search import for_terminal
from codequarry.serving.server.mcp import build_server, listed_tools
from tests.serving.bundles.bundle_factory import VERSION, write_bundle
from tests.serving.bundles.corpus import HOSTILE, INDEX_OPEN, LONG, PIECES, SESSION
from tests.serving.server.test_mcp import ERAS, call


def test_search_prints_places_definitions_and_code(run, lexical_root) -> None:
    code, out, err = run("search", "Index.open", "--root", lexical_root)
    assert code == 0
    assert out.startswith("quarry/io/index.py:120  Index > method open  [1]\n120 | def open(path):")
    assert err.startswith("note: channel faiss is off")


QUERY = "open"


def test_search_shows_code_as_a_model_sees_it_and_all_of_it_where_it_explains(run, bundle_root, engine) -> None:
    _, out, _ = run("search", QUERY, "--root", bundle_root)
    heading = re.compile(r"^(\S.*?:\d+)(.*)  \[\d+\].*\n", flags=re.MULTILINE)
    shown = heading.split(out)[3::3]
    assert len(shown) > WITH_CODE and not any(shown[WITH_CODE:])
    _, explained, _ = run("search", QUERY, "--explain", "--root", bundle_root)
    assert all(re.search(r"^ *\d+ \| ", one, flags=re.MULTILINE) for one in heading.split(explained)[3::3])
    text = call(build_server(engine, version="0"), ERAS[0], "search", {"query": QUERY})
    told = re.split(r"^\S.*:\d+\S*  (.*  )?\[\w+\]\n", text.content[0].text, flags=re.MULTILINE)[1:]
    for place in range(WITH_CODE):
        lines = told[2 * place + 1].split("\nmore: ")[0].strip("\n").split("\n")
        assert shown[place].rstrip("\n").split("\n") == [line for line in lines if line.strip() != "…"]
        assert heading.split(out)[3 * place + 2].strip() == (told[2 * place] or "").strip()


def test_search_takes_every_filter(run, lexical_root) -> None:
    code, out, _ = run(
        "search", "open", "--lang", "python", "--include", "io/**", "--exclude", "*long*", "--repo", "quarry",
        "--symbol", "open", "--channel", "bm25", "--limit", 3, "--json", "--root", lexical_root,
    )  # fmt: skip
    answer = json.loads(out)
    assert code == 0
    assert [result["id"] for result in answer["results"]] == [str(INDEX_OPEN.id)]
    assert answer["top_k"] == 3


@pytest.mark.parametrize("name", ["py", ".py", "Python"])
def test_search_takes_a_language_by_any_of_its_names(run, lexical_root, name) -> None:
    code, out, _ = run("search", "open", "--lang", name, "--json", "--root", lexical_root)
    assert code == 0
    assert {result["metadata"]["lang"] for result in json.loads(out)["results"]} == {"python"}


def test_an_unknown_language_is_told_the_nearest(run, lexical_root) -> None:
    code, _, err = run("search", "open", "--lang", "pyhton", "--root", lexical_root)
    assert code == 2
    assert "use 'python'" in err


@pytest.mark.parametrize(
    ("channel", "setting"), [("splade", "[splade] model"), ("warp", "[warp] enabled"), ("faiss2", "[indexes] tier")]
)
def test_a_channel_that_was_asked_for_and_is_not_there_is_an_error(run, lexical_root, channel, setting) -> None:
    """It was advised to use other words, and the exit code was 0."""
    for as_json in ((), ("--json",)):
        code, out, err = run("search", "open", "--channel", channel, *as_json, "--root", lexical_root)
        assert (code, out) == (2, "")
        assert f"--channel {channel}" in err and setting in err and "codequarry index" in err
        assert "other words" not in err


def test_a_channel_that_is_off_is_an_error_with_its_reason(run, lexical_root) -> None:
    code, out, err = run("search", "open", "--channel", "faiss", "--root", lexical_root)
    assert (code, out) == (2, "")
    assert "is off" in err


def test_a_channel_whose_encoder_fails_late_is_an_error_too(run, lexical_root, monkeypatch) -> None:
    """The channel was judged before its encoder had been opened, and the exit code was 0 on a busy machine."""
    opened = query_encoder.open_shared_encoder

    def late(*arguments, **options):
        time.sleep(1)
        return opened(*arguments, **options)

    monkeypatch.setattr(query_encoder, "open_shared_encoder", late)
    code, out, err = run("search", "open", "--channel", "faiss", "--root", lexical_root)
    assert (code, out) == (2, "")
    assert "is off" in err


def test_explain_shows_parts_that_add_up(run, lexical_root) -> None:
    _, out, _ = run("search", "Index.open", "--explain", "-m", 1, "--root", lexical_root)
    assert "bm25:terms=index,open" in out
    assert "query: qualified name (names joined by separators)" in out
    assert "bm25: rank 1, score" in out
    assert "-> 1.000 x 0.9 for the chunk" in out
    assert "the file decides 50%" in out


def test_of_a_text_that_is_too_long_the_beginning_is_searched_for(run, lexical_root) -> None:
    code, out, err = run("search", "open the index " + "word " * 1_000, "--json", "--root", lexical_root)
    assert code == 0
    assert json.loads(out)["results"]
    assert "note: the first 4,096 of 5,015 characters are searched for" in err


def test_nothing_found_is_told_apart_from_failures(run, lexical_root) -> None:
    code, out, err = run("search", "zzzzzz", "--root", lexical_root)
    assert (code, out) == (1, "")
    assert "no results" in err


def test_fetch_prints_code(run, lexical_root) -> None:
    code, out, _ = run("fetch", SESSION.id, "--root", lexical_root)
    assert code == 0
    assert SESSION.text in out


def test_fetch_fails_when_an_id_is_not_there_but_prints_the_others(run, lexical_root) -> None:
    code, out, err = run("fetch", SESSION.id, 12345, "--root", lexical_root)
    assert code == 1
    assert SESSION.text in out
    assert "no chunk '12345'" in err
    code, out, _ = run("fetch", 12345, "--json", "--root", lexical_root)
    assert code == 1
    assert json.loads(out)["objects"][0]["error"]["code"] == "NOT_FOUND"


def test_fetch_reads_paths_and_ranges(run, lexical_root) -> None:
    code, out, _ = run("fetch", "io/long.py:2-3", "--root", lexical_root)
    assert code == 0
    assert out.split("\n")[1:3] == LONG.text.split("\n")[1:3]
    code, out, err = run("fetch", "io/long.py", "--ref", "c" * 7, "--root", lexical_root)
    assert code == 1
    assert "a" * 40 in err


def test_indexed_code_cannot_drive_the_terminal(run, lexical_root) -> None:
    _, out, _ = run("fetch", HOSTILE.id, "--root", lexical_root)
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert for_terminal("a\x1b[31m\tb\r\n\u202ec") == "a[31m\tb\nc"


def test_versions(run, tmp_path) -> None:
    write_bundle(tmp_path, PIECES, version=VERSION.replace("2026", "2025"))
    paths = write_bundle(tmp_path, PIECES, commits={"quarry": "a" * 40})
    code, out, _ = run("versions", "--json", "--root", tmp_path)
    rows = json.loads(out)
    assert code == 0
    assert [row["version"] for row in rows] == [VERSION.replace("2026", "2025"), VERSION]
    assert [row["current"] for row in rows] == [False, True]
    assert rows[1]["chunks"] == len(PIECES)
    assert rows[1]["commits"] == {"quarry": "a" * 40, "gateway": ""}
    paths.manifest.write_text("{")
    _, out, _ = run("versions", "--root", tmp_path)
    assert "broken" in out
    rows = json.loads(run("versions", "--json", "--root", tmp_path)[1])
    assert [row["state"] for row in rows] == ["", "broken"]
    assert "CURRENT promises" in rows[1]["problem"]


def test_names_of_versions_are_whole_in_a_narrow_terminal(run, tmp_path, monkeypatch) -> None:
    write_bundle(tmp_path, PIECES, commits={"quarry": "a" * 40, "gateway": "b" * 40})
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("versions", "--root", tmp_path)
    assert f"*  {VERSION} " in out
    assert max(map(len, out.splitlines())) <= 80
    assert "serving.search_timeout_s = " in run("settings", "--all")[1]


def test_settings_lists_every_key_with_its_meaning(run) -> None:
    code, out, _ = run("settings", "--json")
    rows = {row["key"]: row for row in json.loads(out)}
    assert code == 0
    assert rows["serving.rrf_k"]["default"] == 60.0
    assert rows["serving.rrf_k"]["environment"] == "CODEQUARRY__SERVING__RRF_K"
    assert all(row["description"] for row in rows.values())
    told = run("settings", "--all")[1]
    assert all(f"{key} = " in told for key in rows)
    one = run("settings", "serving.rrf_k")[1]
    assert "serving.rrf_k = 60.0" in one and "CODEQUARRY__SERVING__RRF_K" in one and len(one.splitlines()) <= 4
    section = run("settings", "drift")[1]
    assert "drift.min_files = " in section and "serving" not in section
    code, _, err = run("settings", "rrk_k")
    assert code and "rrf_k" in err


def test_settings_shows_the_current_value_beside_the_default(run, tmp_path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[serving]\nrrf_k = 10\n")
    rows = {row["key"]: row for row in json.loads(run("settings", "--json", "--settings", file)[1])}
    assert (rows["serving.rrf_k"]["value"], rows["serving.rrf_k"]["default"]) == (10.0, 60.0)


def test_tools_prints_the_listing(run) -> None:
    assert json.loads(run("tools")[1]) == {"tools": listed_tools()}


@pytest.mark.parametrize(
    ("arguments", "code", "found", "remedy"),
    [
        (("search", "x"), 2, "no bundle is published", "codequarry index"),
        (("fetch", "1"), 2, "no bundle is published", "codequarry index"),
        (("versions",), 2, "no bundle is published", "codequarry index"),
        (("serve", "--stdio"), 2, "no bundle is published", "codequarry index"),
        (("serve", "--stdio", "--port", "1"), 2, "--stdio and --host or --port", "--stdio alone"),
        (("serve", "--port", "99999"), 2, "--port 99999", "0"),
        (("search", "x", "--channel", "best"), 2, "--channel: must be one of", "add -h"),
        (("search", "x", "--settings", "nowhere.toml"), 2, "settings file not found", "existing file"),
    ],
)
def test_errors_say_what_to_do_and_set_the_exit_code(run, arguments, code, found, remedy) -> None:
    left, out, err = run(*arguments)
    assert (left, out) == (code, "")
    assert err.startswith("error: ")
    assert found in err
    assert remedy in err
    assert "Traceback" not in err


def test_a_damaged_bundle_is_refused_with_a_reason(run, lexical_root, tmp_path) -> None:
    (write_bundle(tmp_path / "root", PIECES).path / "tables/embeddings.parquet").write_bytes(b"x")
    code, _, err = run("search", "x", "--root", tmp_path / "root")
    assert code == 2
    assert "tables/embeddings.parquet: 1 bytes, expected" in err


@pytest.mark.parametrize("command", [("search", "x"), ("fetch", "1"), ("versions",)])
def test_a_root_that_is_no_folder_is_no_traceback(run, tmp_path, command) -> None:
    (tmp_path / "file").touch()
    code, out, err = run(*command, "--root", tmp_path / "file")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_a_full_disk_behind_stdout_is_no_traceback(run, lexical_root, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("typer.echo", full)
    code, _, err = run("search", "open", "--root", lexical_root)
    assert code == 2
    assert err.startswith("error: No space left on device\ntry: ")


@pytest.mark.parametrize(
    "command",
    "index search grep fetch outline files overview explore definition references serve tools versions".split()
    + "verify doctor rollback prune export import settings".split(),
)
def test_help_teaches_by_example(run, command) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example" in out
    assert f"codequarry {command}" in out


def process(code: str, *arguments: str, stdout: int | IO[str] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run Python code as the console script is run."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def test_a_process_ends_with_its_code_its_output_and_what_was_left_for_the_end(lexical_root) -> None:
    code = "import atexit; from codequarry.pipelines.cli.root import run; atexit.register(print, 'the end'); run()"
    done = process(code, "versions", "--root", str(lexical_root))
    assert (done.returncode, done.stderr) == (0, "")
    assert "CURRENT" in done.stdout.upper()
    assert done.stdout.endswith("the end\n")
    assert process(code, "fetch", "1", "--root", str(lexical_root)).returncode == 1
    assert process(code, "no-such-command").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_an_error() -> None:
    code = "from codequarry.pipelines.cli import root as cli; cli.run()"
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = process(code, "settings", stdout=full)
    assert done.returncode == 2
    assert "No space left" in done.stderr


def test_a_bug_keeps_its_traceback() -> None:
    code = "from codequarry.pipelines.cli import root as cli; cli.build_app = lambda: 1 / 0; cli.run()"
    done = process(code)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("file", ["rows/ids_rows.npy", "rows/strings.npy", "facts/leaves.npy", "files/facts.npy"])
@pytest.mark.parametrize("damage", [b"(", b""], ids=["header", "empty"])
def test_a_damaged_array_is_told_without_a_traceback(
    run, lexical_root: Path, tmp_path: Path, file: str, damage: bytes
) -> None:
    """Once it was a TokenError, or an EOFError, of Python's own parser."""
    root = shutil.copytree(lexical_root, tmp_path / "root")
    path = BundleRoot(root).version(VERSION).path / file
    data = path.read_bytes()
    place = data.index(b"'shape': (") + 20
    path.write_bytes(data[:place] + damage + data[place + 1 :] if damage else b"")
    for command in (("search", "open"), ("grep", "open"), ("definition", "open"), ("doctor",)):
        code, _, err = run(*command, "--root", root)
        assert code in (0, 1, 2)
        assert code != 2 or command == ("doctor",) or "error:" in err
    assert run("verify", "--deep", "--root", root)[0] == 2


@pytest.mark.parametrize(
    "version", ["22630101T000000Z-0123abcd", "99991231T235959Z-0123abcd", "20261399T999999Z-0123abcd"]
)
def test_a_version_of_any_date_and_of_none_stops_no_command(
    run, lexical_root: Path, tmp_path: Path, version: str
) -> None:
    """One name that is no date ended every query, and the plots of Dagster."""
    root = shutil.copytree(lexical_root, tmp_path / "root")
    current = BundleRoot(root).read_current().version
    shutil.copytree(root / "versions" / current, root / "versions" / version)
    for command in (("versions",), ("search", "open"), ("prune",)):
        assert run(*command, "--root", root)[0] == 0
    code, out, _ = run("versions", "--json", "--root", root)
    assert (code, {row["version"]: row["state"] for row in json.loads(out)}[version]) == (0, "broken")
    code, out, _ = run("sql", "SELECT version, created FROM manifests", "--json", "--root", root)
    assert (code, {row["version"] for row in json.loads(out)}) == (0, {version, current})


@pytest.mark.parametrize("created", ["292277026596-12-04T15:30:08Z", "soon"])
def test_a_manifest_without_a_time_is_a_broken_version(run, lexical_root: Path, tmp_path: Path, created: str) -> None:
    root = shutil.copytree(lexical_root, tmp_path / "root")
    manifest = BundleRoot(root).version(BundleRoot(root).read_current().version).manifest
    data = re.sub(rb'"created": "[^"]*"', b'"created": "%s"' % created.encode(), manifest.read_bytes())
    manifest.write_bytes(data)
    code, out, _ = run("versions", "--json", "--root", root)
    assert (code, json.loads(out)[0]["state"]) == (0, "broken")


def test_days_without_end_are_kept_without_end(run, lexical_root: Path, tmp_path: Path, monkeypatch) -> None:
    root = shutil.copytree(lexical_root, tmp_path / "root")
    for days in ("1e12", "inf"):
        monkeypatch.setenv("CODEQUARRY__BUNDLE__KEEP_DAYS", days)
        assert run("prune", "--root", root)[0] == 0
