from __future__ import annotations

import json

import pytest
import typer

from tests.serving.bundles.corpus import HOSTILE, LONG


def test_output_as_of_grep(run, lexical_root) -> None:
    code, out, err = run("grep", "expires_at", "--root", lexical_root)
    assert (code, out) == (0, "quarry/web/session_store.py:4:18:         if entry.expires_at <= now:\n")
    assert err == "note: 1 match in 1 file\n"


def test_every_option(run, lexical_root) -> None:
    code, out, _ = run(
        "grep", "-E", "-i", r"RETURN \w+\.", "-C", 1, "-m", 5, "--lang", "python", "--include", "io/**", "--exclude",
        "*long*", "--repo", "quarry", "--symbol", "open", "--json", "--root", lexical_root,
    )  # fmt: skip
    answer = json.loads(out)
    assert code == 0
    assert [(one["uri"], one["start_line"], one["start_column"]) for one in answer["results"]] == [
        ("quarry/io/index.py", 2, 4)
    ]
    assert answer["results"][0]["before"] == ["    '''Memory-map an index file.'''"]


def test_context_lines_are_told_apart_and_groups_divided(run, lexical_root) -> None:
    _, out, _ = run("grep", "-w", "open", "-C", 1, "--include", "io/index.py", "--root", lexical_root)
    assert out == (
        "quarry/io/index.py:1:5: def open(path):\n"
        "quarry/io/index.py-2-     '''Memory-map an index file.'''\n"
        "--\n"
        "quarry/io/index.py-2-     '''Memory-map an index file.'''\n"
        "quarry/io/index.py:3:25:     return mmap.mmap(os.open(path, os.O_RDONLY), 0)\n"
    )


def test_lines_on_one_side_alone(run, lexical_root) -> None:
    where = ("--include", "io/index.py", "--root", lexical_root)
    _, out, _ = run("grep", "Memory-map", "-A", 1, *where)
    assert [line[:20] for line in out.splitlines()] == ["quarry/io/index.py:2", "quarry/io/index.py-3"]
    _, out, _ = run("grep", "Memory-map", "-C", 1, "-A", 0, *where)
    assert [line[:20] for line in out.splitlines()] == ["quarry/io/index.py-1", "quarry/io/index.py:2"]


def test_names_and_counts_are_of_all_matches(run, lexical_root) -> None:
    code, out, err = run("grep", "-c", "compute", "-m", 1, "--root", lexical_root)
    assert (code, out) == (0, f"quarry/io/long.py:{LONG.text.count('compute')}\n")
    assert err.endswith("in 1 file\n") and "first" not in err
    assert run("grep", "-rnl", "compute", "--root", lexical_root)[1] == "quarry/io/long.py\n"


def test_modes(run, lexical_root) -> None:
    assert run("grep", "-w", "pen", "--root", lexical_root)[:2] == (1, "")
    assert run("grep", "-F", "pen(path", "--root", lexical_root)[0] == 0
    assert run("grep", "--mode", "phrase", "REMOVE expired", "--root", lexical_root)[0] == 0
    code, _, err = run("grep", "-F", "-E", "x", "--root", lexical_root)
    assert (code, err) == (2, "error: --mode: more than one is given\ntry: use one of -F, -w, -E and --mode\n")
    code, _, err = run("grep", "-E", "x(", "--root", lexical_root)
    assert (code, err.splitlines()[0]) == (2, "error: pattern: a group is not closed")


def test_matches_of_a_line_are_one_line_and_marked_on_a_terminal(
    run, lexical_root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(_: object, *parts: tuple[str, str]) -> None:
        typer.echo("".join(f"<{text}>" if "red" in style else text for text, style in parts))

    monkeypatch.setattr("codequarry.serving.cli.finding.output.Output.line", shown)
    _, out, _ = run("grep", "step", "-m", 1, "--root", lexical_root)
    assert out == "quarry/io/long.py:2:5:     <step>_0 = compute(0)  # the quick brown fox\n"
    _, out, _ = run("grep", "compute", "-m", 200, "--include", "long.py", "--root", lexical_root)
    assert out.count("<compute>") == LONG.text.count("compute")
    _, out, _ = run("grep", "-E", r"\bp|RD", "--include", "io/index.py", "--root", lexical_root)
    assert out.splitlines()[1].endswith("os.open(<p>ath, os.O_<RD>ONLY), 0)")


def test_hostile_code_and_names_stay_plain(run, lexical_root) -> None:
    _, out, _ = run("grep", "delete_everything", "--root", lexical_root)
    assert out == "quarry/docs/ab %23.md:2:15: [31mand call delete_everything[0m\n"
    assert "\x1b" in HOSTILE.text
