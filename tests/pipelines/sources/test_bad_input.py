"""Everything that is wrong with repositories: each file has a record, nothing is lost, the rest is indexed."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from codequarry.pipelines.sources.census import take_census
from codequarry.pipelines.sources.sources import list_source
from codequarry.schemas.settings.load import RepositorySettings, SourcesSettings
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit, git

GOOD = b"def good():\n    return 'found again'\n"
DEEP = 2_000
FATES: dict[bytes, tuple[bytes, str, bool, bool]] = {
    # name: (content, reason it is skipped, parsed, with syntax errors)
    b"good.py": (GOOD, "", True, False),
    b"broken.py": (b"def f(:\n    pass\n\nclass (\n\ndef g():\n    return 1\n", "", True, True),
    b"bom.py": (b"\xef\xbb\xbfdef bom():\n    return 1\n", "", True, False),
    b"latin.py": (b"# \xe9t\xe9\ndef summer():\n    return '\xfc'\n", "", True, False),
    b"mixed.py": ("# été\n".encode() + b"# \xe9t\xe9\r\nx = 1\r", "", True, False),
    b"utf16.py": ("\ufeffx = 1\n".encode("utf-16-le"), "", True, False),
    b"null.py": (b"x = 1\n\0\ny = 2\n", "binary", False, False),
    b"late_null.py": (b"x = 1\n" * 40_000 + b"\0", "", True, True),
    b"deep.py": (b"x = " + b"(" * DEEP + b")" * DEEP + b"\n", "", True, False),
    b"deep.json": (b"[" * DEEP + b"]" * DEEP + b"\n", "", True, False),
    b"deep.yaml": (b"".join(b" " * level + b"a:\n" for level in range(DEEP))[:900_000], "", False, False),
    b"deep.js": (b"function f() {\n" * DEEP + b"}\n" * DEEP, "", True, False),
    b"line.js": (b"var a=1;" * 640_000, "minified", False, False),
    b"line.py": (b"x=1;" * 1_280_000, "minified", False, False),
    b"line.txt": (b"word " * 1_024_000, "minified", False, False),
    b"Case.py": (b"def upper(): pass\n", "", True, False),
    b"case.py": (b"def lower(): pass\n", "", True, False),
    b"caf\xe9.py": (GOOD, "path_not_utf8", False, False),
    b"new\nline.py": (b"def newline(): pass\n", "", True, False),
}


def write(repo: Path) -> None:
    """The files above, links that lead in circles, and a submodule."""
    commit(repo / "module", {"inner.py": "x = 1\n"})
    commit(repo, {"first.py": "first = 1\n"})
    for name, (content, *_) in FATES.items():
        (Path(os.fsdecode(os.fsencode(repo) + b"/" + name))).write_bytes(content)
    (repo / "loop").symlink_to(repo)
    (repo / "knot").symlink_to("knot")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "everything")


@pytest.mark.slow
def test_what_is_wrong_with_a_file_is_said_and_the_others_are_indexed(run: Run, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    write(repo)
    (tmp_path / "settings.toml").write_text(
        '[sources]\nmax_file_bytes = 6000000\n[[sources.repositories]]\npath = "repo"\n[bundle]\nroot = "bundles"\n'
    )
    done = run("index", "-v", "--settings", tmp_path / "settings.toml")
    assert done.returncode == 0, done.stderr
    tables = f"{done.stdout.strip()}/tables"
    with duckdb.connect() as connection:

        def ask(query: str) -> list[tuple]:
            return connection.execute(query).fetchall()

        files = f"read_parquet('{tables}/files.parquet')"
        told = {path: fate for path, *fate in ask(f"SELECT path, skip_reason, parsed, syntax_errors FROM {files}")}
        expected = {name.decode("utf-8", "backslashreplace"): list(fate) for name, (_, *fate) in FATES.items()}
        links = {name: ["symlink", False, False] for name in ("loop", "knot")}
        assert told == {
            **expected,
            **links,
            "module": ["nested_repository", False, False],
            "first.py": ["", True, False],
        }
        chunks = f"read_parquet('{tables}/chunks.*parquet')"
        covered = ask(f"SELECT path, sum(end_byte - start_byte) FROM {chunks} GROUP BY path")
        sizes = {name.decode(): len(content) for name, (content, reason, *_) in FATES.items() if not reason}
        recoded = {"latin.py", "mixed.py", "utf16.py"}  # their bytes are those of the text in UTF-8
        assert dict(covered) == dict(ask(f"SELECT path, size_bytes FROM {files} WHERE skip_reason = ''"))
        assert {path: size for path, size in covered if path not in recoded} == {
            **{name: size for name, size in sizes.items() if name not in recoded},
            "first.py": 10,
        }
        names = {name for (name,) in ask(f"SELECT qualified_name FROM read_parquet('{tables}/ast_nodes.*parquet')")}
        assert {"good", "bom", "summer", "upper", "lower", "newline", "g"} <= names
    parsed = sum(fate[2] for fate in FATES.values()) + 1
    said = " ".join(done.stderr.split())
    assert f"{parsed} of {len(sizes) + 1} files by syntax tree, 2 with errors" in said


def test_a_file_above_the_limit_is_a_record_at_the_default_settings(tmp_path: Path) -> None:
    commit(tmp_path, {"line.txt": FATES[b"line.txt"][0], "good.py": GOOD})
    source = list_source(RepositorySettings(path=tmp_path, name="repo"))
    assert {each.path: each.skip_reason for each in take_census(source, SourcesSettings())} == {
        "line.txt": "too_large",
        "good.py": None,
    }


def told(run: Run, verb: str, repo: Path) -> str:
    done = run(verb, repo, *(["--verbose"] if verb == "index" else []))
    assert done.returncode == 0, done.stderr
    return " ".join((done.stdout if verb == "census" else done.stderr).split())


def test_a_sparse_work_tree_is_not_a_changed_one_and_says_what_it_lacks(run: Run, tmp_path: Path) -> None:
    commit(tmp_path / "origin", {"a.py": GOOD, "left/b.py": GOOD, "left/c.py": GOOD})
    git(tmp_path, "clone", "--quiet", "origin", "sparse")
    sparse = tmp_path / "sparse"
    git(sparse, "sparse-checkout", "set", "--cone", "--sparse-index", "other")
    assert not (sparse / "left").exists()
    said = told(run, "index", sparse)
    assert "uncommitted" not in said
    assert "files indexed 1 files skipped 2 2 not_checked_out" in said
    (sparse / "left").mkdir()
    (sparse / "left" / "b.py").write_text("def brought_back(): pass\n")
    said = told(run, "census", sparse)
    assert "with uncommitted changes" in said
    assert "not_checked_out 1 left/c.py" in said
    (sparse / "a.py").unlink()
    assert "missing 1 a.py" in told(run, "census", sparse)


def test_a_shallow_clone_with_a_detached_head_is_read_at_its_commit(run: Run, tmp_path: Path) -> None:
    first = commit(tmp_path / "origin", {"a.py": GOOD})
    commit(tmp_path / "origin", {"a.py": "def later(): pass\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{tmp_path}/origin", "shallow")
    shallow = tmp_path / "shallow"
    git(shallow, "fetch", "--quiet", "--depth=1", "origin", first)
    git(shallow, "checkout", "--quiet", "--detach", first)
    said = told(run, "index", shallow)
    assert f"shallow: commit {first[:12]} files indexed 1" in said
