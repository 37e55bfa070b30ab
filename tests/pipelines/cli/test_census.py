"""`codequarry census`, and URLs on the command line, as a person uses them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.conftest import MAIN, Run
from tests.pipelines.corpus import SHOP, write_shop
from tests.pipelines.repositories import commit, git, shim

EXTRA: dict[str, str | bytes] = {
    "tests/test_cart.py": "def test_total():\n    assert True",
    "poetry.lock": "x",
    "notes/.codequarryignore": "*.txt\n",
    **{f"notes/{n}.txt": "x" for n in range(5)},
    "web/\x1b[31mred.png": b"x",
}


def manifest_of(folder: Path) -> Manifest:
    root = BundleRoot(folder / ".codequarry" / "bundles")
    return read_manifest(root.version(root.read_current().version))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shop = write_shop(tmp_path)
    commit(shop, EXTRA)
    return shop


def test_census_prints_what_would_be_indexed_and_why_not_and_writes_nothing(
    run: Run, shop: Path, tmp_path: Path
) -> None:
    done = run("census", shop)
    assert done.returncode == 0, done.stderr
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"shop: {shop}, commit {git(shop, 'rev-parse', 'HEAD')[:12]}" in rows[0]
    python = [str(content) for content in (SHOP["shop/cart.py"], EXTRA["tests/test_cart.py"])]
    lines, size = sum(len(text.splitlines()) for text in python), sum(len(text.encode()) for text in python)
    assert f"python 2 {lines} {size}" in rows
    assert "test 1" in rows
    assert "codequarryignore 5 notes/0.txt, notes/1.txt, notes/2.txt" in rows
    assert "lock_file 1 poetry.lock" in rows
    assert "\x1b" not in done.stdout  # a file name may hold terminal commands
    assert os.listdir(tmp_path / "cwd") == []
    assert "notes/4.txt" not in done.stdout
    listed = run("census", shop, "--all").stdout
    assert "notes/4.txt  skipped: codequarryignore  1 byte" in listed
    assert "shop/cart.py  python, source" in listed


def test_census_index_and_the_bundle_tell_the_same_counts(run: Run, shop: Path, tmp_path: Path) -> None:
    (told,) = json.loads(run("census", shop, "--json").stdout)["repositories"]
    indexed = run("index", shop)
    assert indexed.returncode == 0, indexed.stderr
    manifest = manifest_of(tmp_path / "cwd")
    (source,) = manifest.sources
    assert {reason: count["files"] for reason, count in told["skipped"].items()} == source.skipped
    assert (told["files"], told["classes"], told["commit"]) == (source.files, source.classes, source.commit)
    with duckdb.connect() as connection:
        files = f"read_parquet('{indexed.stdout.strip()}/tables/files.parquet')"
        query = f"SELECT lang, count(*), sum(lines), sum(size_bytes) FROM {files} WHERE skip_reason = '' GROUP BY lang"
        found = {lang: counts for lang, *counts in connection.execute(query).fetchall()}
        classes = f"SELECT path_class, count(*) FROM {files} WHERE skip_reason = '' GROUP BY 1"
        assert dict(connection.execute(classes).fetchall()) == source.classes
    assert {lang: [each["files"], each["lines"], each["bytes"]] for lang, each in told["languages"].items()} == found
    (everything,) = json.loads(run("census", shop, "--json", "--all").stdout)["repositories"]
    assert len(everything["listed"]) == manifest.counts.files + manifest.counts.skipped_files


def test_index_by_url_and_ref_publishes_that_commit_and_says_where_it_is_from(
    run: Run, shop: Path, tmp_path: Path
) -> None:
    git(shop, "tag", "v1")
    first = git(shop, "rev-parse", "HEAD")
    commit(shop, {"later.py": "x = 1\n"})
    url = f"file://{shop}"
    done = run("index", f"store={url}#v1")
    assert done.returncode == 0, done.stderr
    (source,) = manifest_of(tmp_path / "cwd").sources
    assert (source.name, source.url, source.ref, source.commit, source.dirty) == ("store", url, "v1", first, False)
    (told,) = json.loads(run("census", f"{url}#v1", "--json").stdout)["repositories"]
    assert (told["name"], told["place"], told["files"]) == ("shop", f"{url}#v1", source.files)
    assert "unchanged" in run("index", f"store={url}#v1").stderr
    assert "published" in run("index", f"store={shop}#v1").stderr  # the same commit, from another place


def test_urls_of_the_settings_file_are_read(run: Run, shop: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[[sources.repositories]]\nurl = "file://{shop}"\nref = "main"\nname = "store"\n')
    (told,) = json.loads(run("census", "--settings", settings, "--json").stdout)["repositories"]
    assert (told["name"], told["place"]) == ("store", f"file://{shop}#main")
    settings.write_text(f'[[sources.repositories]]\nurl = "file://{shop}"\npath = "."\n')
    refused = run("census", "--settings", settings)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "expected either path or url" in refused.stderr


def test_a_census_of_a_url_leaves_nothing_git_would_see(run: Run, shop: Path, tmp_path: Path) -> None:
    commit(tmp_path / "cwd", {"a.py": "x\n"})
    program = f"import os; del os.environ['CODEQUARRY__PATHS__STORE']\n{MAIN}"
    assert run("census", f"file://{shop}", program=program).returncode == 0
    assert (tmp_path / "cwd" / ".codequarry" / "store" / "repositories").is_dir()
    assert git(tmp_path / "cwd", "status", "--porcelain") == ""


def test_credentials_reach_the_server_and_no_output_and_no_file(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'echo "$@" >>{tmp_path}/ssh.log; for last; do :; done; exec sh -c "$last"'
    monkeypatch.setenv("PATH", shim(tmp_path / "bin", "ssh", script))
    program = f"import os; del os.environ['CODEQUARRY__PATHS__STORE']\n{MAIN}"
    done = run("census", f"ssh://git:s3cret@example.org{shop}", program=program)
    assert done.returncode == 0, done.stderr
    assert "git@example.org" in (tmp_path / "ssh.log").read_text().replace("git:s3cret@", "git@")
    failing = f"import codequarry.pipelines.git.remote as remote; remote.WAITS_S = ()\n{program}"
    failed = run("index", "https://me:s3cret@127.0.0.1:1/team/app", program=failing)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "https://127.0.0.1:1/team/app cannot be read" in failed.stderr
    written = b"".join(path.read_bytes() for path in (tmp_path / "cwd").rglob("*") if path.is_file())
    assert "s3cret" not in done.stdout + done.stderr + failed.stderr
    assert b"s3cret" not in written
    assert written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ext::sh -c touch% pwned"], "a git URL must not hold spaces"),
        (["ext::sh"], "not a git URL that may be used"),
        (["app=--upload-pack=touch pwned"], "does not exist"),
        (["--upload-pack=touch pwned"], "No such option"),
        (["--", "--upload-pack=touch pwned"], "'--upload-pack' cannot name a repository"),
        (["http://me:s3cret@example.org/app"], "not a git URL that may be used"),
        (["git@-oProxyCommand=touch:app"], "not a git URL that may be used"),
        (["https://me:s3cret@example.org/app#--upload-pack=touch"], "behind '#'"),
        (["-app=https://me:s3cret@example.org/app"], "No such option"),
        (["--", "-app=https://me:s3cret@example.org/app"], "cannot name a repository"),
        (["https://me:s3cret@example.org/app", "app"], "two repositories are named 'app'"),
    ],
)
@pytest.mark.parametrize("verb", ["census", "index"])
def test_what_is_no_repository_is_refused_before_anything_runs(
    run: Run, tmp_path: Path, verb: str, arguments: list[str], message: str
) -> None:
    done = run(verb, *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "s3cret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("value", [10**30, 2**63])
def test_a_huge_limit_of_file_sizes_is_refused_without_a_traceback(run: Run, tmp_path: Path, value: int) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "settings.toml").write_text(f"[sources]\nmax_file_bytes = {value}\n")
    done = run("census", tmp_path, "--settings", tmp_path / "settings.toml")
    assert done.returncode == 2
    assert "sources.max_file_bytes" in done.stderr and "Traceback" not in done.stderr
