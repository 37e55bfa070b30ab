"""SCIP indexes made elsewhere: both forms, any language, and every way in which they may be of no use."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.scip.index_file import read_scip, read_scip_file
from codequarry.pipelines.scip.stage import scip_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import ScipEntry
from codequarry.schemas.errors import ScipIndexError
from codequarry.schemas.settings.load import ScipSettings, Settings
from codequarry.serving.files.integrity import file_sha256, read_manifest
from tests.pipelines.conftest import MakeSettings, Run
from tests.pipelines.repositories import commit
from tests.pipelines.scip.scip_writer import document, external, information, metadata, occurrence

GO = "package tools\n\nfunc Retry() {}\n\nfunc main() { Retry() }\n"
RUST = "pub fn pop() {}\n"
PY = "def use():\n    pass\n"
FILES: dict[str, str | bytes] = {"retry.go": GO, "cmd/empty.go": "package main\n", "src/lib.rs": RUST, "use.py": PY}
RETRY = "scip-go gomod example v1 tools/Retry()."
GO_INDEX = metadata("scip-go", "0.1.26") + document(
    "retry.go", occurrence(RETRY, [2, 5, 10], 1), occurrence(RETRY, [4, 14, 19]), symbols=[information(RETRY)]
)
RUST_JSON = {
    "metadata": {"toolInfo": {"name": "rust-analyzer", "version": "1.90", "arguments": []}, "projectRoot": "file:///r"},
    "documents": [
        {
            "language": "rust",
            "relativePath": "src/lib.rs",
            "occurrences": [{"range": [0, 7, 10], "symbol": "rust cargo r 1 pop().", "symbolRoles": 1}],
            "symbols": [{"symbol": "rust cargo r 1 pop().", "kind": "Function", "displayName": "pop"}],
            "positionEncoding": "UTF8CodeUnitOffsetFromLineStart",
        }
    ],
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "mixed"
    commit(folder, FILES)
    return folder


def published(folder: Path) -> tuple[BundlePaths, dict[str, ScipEntry]]:
    """The current version below a folder, and what it says of each index by its label."""
    root = BundleRoot(folder / ".codequarry" / "bundles")
    paths = root.version(root.read_current().version)
    (source,) = read_manifest(paths).sources
    return paths, {entry.label: entry for entry in source.scip}


def test_indexes_of_the_settings_file_reach_the_bundle_in_both_forms(run: Run, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "go.bin").write_bytes(GO_INDEX)
    (tmp_path / "rust.txt").write_text("\n" + json.dumps(RUST_JSON, indent=1))
    file = tmp_path / "project.toml"
    listed = '[[sources.repositories]]\npath = "mixed"\nscip = ["go.bin", "rust.txt", "gone.scip"]\n'
    file.write_text(f'{listed}[bundle]\nroot = "cwd/.codequarry/bundles"\n')
    done = run("index", "--settings", file, "--verbose")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "go.bin scip-go 0.1.26 partial, 1 of 2 files: 1 of 2 files are not in the index" in told
    assert "rust.txt rust-analyzer 1.90 ok, 1 of 1 file" in told
    assert "gone.scip missing, 0 of 0 files: there is no such file" in told
    paths, entries = published(tmp_path / "cwd")
    go = entries["go.bin scip-go 0.1.26"]
    assert (go.status, go.coverage, go.sha256) == ("partial", 0.5, file_sha256(tmp_path / "go.bin"))
    assert entries["gone.scip"].status == "missing"
    rows = pq.read_table(paths.table("scip_occurrences")).to_pylist()
    found = [str(FILES[row["path"]])[row["start_byte"] : row["end_byte"]] for row in rows]
    assert found == ["Retry", "Retry", "pop"]
    kinds = {row["display_name"]: row["kind"] for row in pq.read_table(paths.table("scip_symbols")).to_pylist()}
    assert kinds == {"Retry": "function", "pop": "function"}
    assert "unchanged" in run("index", "--settings", file).stderr
    (tmp_path / "gone.scip").write_bytes(b"damaged")
    again = run("index", "--settings", file, "--verbose")
    assert "gone.scip failed, 0 of 0 files: it is no SCIP index" in " ".join(again.stderr.split())
    assert "published" in again.stderr


def test_an_index_of_the_command_line_belongs_to_the_repository_it_names(run: Run, repo: Path, tmp_path: Path) -> None:
    odd = tmp_path / "cwd" / "[red]a=b.scip"
    odd.write_bytes(metadata("scip\x1b[31m-go", "1") + document("retry.go", occurrence(RETRY, [2, 5, 10], 1)))
    done = run("index", repo, "--scip", odd.name)
    assert done.returncode == 0, done.stderr
    assert "[red]a=b.scip scip??31m-go 1 partial" in " ".join(done.stderr.split())
    assert "\x1b" not in done.stderr
    _, entries = published(tmp_path / "cwd")
    assert entries["[red]a=b.scip scip??31m-go 1"].documents == 1


@pytest.mark.parametrize("text", ["other=index.scip", "index.scip"])
def test_an_index_of_no_known_repository_is_refused(run: Run, repo: Path, tmp_path: Path, text: str) -> None:
    done = run("index", repo, f"more={repo}", "--scip", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is of no repository that is indexed" in " ".join(done.stderr.split())
    assert "--scip NAME=FILE; the repositories are mixed, more" in " ".join(done.stderr.split())


Prepared = tuple[Settings, Path]


@pytest.fixture
def prepared(repo: Path, tmp_path: Path, make_settings: MakeSettings) -> Prepared:
    """Settings over a snapshot, with one index that is not there yet; no indexer runs."""
    made = make_settings(repo, scip={"enabled": False})
    (repository,) = repositories_by_name(made.sources.repositories).values()
    snapshot_repository(repository, made)
    file = tmp_path / "index.scip"
    return with_indexes(made, file), file


def with_indexes(made: Settings, *files: Path) -> Settings:
    (repository,) = made.sources.repositories
    listed = (repository.model_copy(update={"scip": files}),)
    return made.model_copy(update={"sources": made.sources.model_copy(update={"repositories": listed})})


def paths_of(made: Settings, table: str) -> list[str]:
    return pq.read_table(repository_work(made.paths.work, "mixed").table(table))["path"].to_pylist()


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (b"", "failed", "it is no SCIP index"),
        (b"{", "failed", "it is no SCIP index"),
        (b'{"documents": 7}', "failed", "it is no SCIP index"),
        (b"{" * 100_000, "failed", "it is no SCIP index"),
        (b"\n{" + b"\xff" * 200, "failed", "it is no SCIP index"),
        (metadata(), "failed", "none of its 0 documents is an indexed file that no index before it describes"),
        (
            metadata() + document("gone.go", occurrence("local 1", [0, 0, 1])) + document("../../etc/passwd"),
            "failed",
            "none of its 2 documents is an indexed file that no index before it describes",
        ),
        (
            metadata() + document("src/lib.rs", occurrence("local 1", [0, 0, 900]), occurrence("local 1", [8, 0, 1])),
            "partial",
            "2 occurrences lie outside their file: is it of this commit?",
        ),
        (GO_INDEX[:-3], "failed", "none of its 0 documents is an indexed file that no index before it describes"),
        (
            metadata() + document("src/lib.rs", occurrence("local 1", [0, 0, 3])) + GO_INDEX[-40:],
            "partial",
            "1 parts of the index cannot be read",
        ),
    ],
)
def test_an_index_that_is_of_no_use_leaves_a_status(prepared: Prepared, data: bytes, status: str, reason: str) -> None:
    made, file = prepared
    file.write_bytes(data)
    (entry,) = scip_repository("mixed", made).indexers
    assert (entry.status, entry.reason, entry.given) == (status, reason, "index.scip")
    expected = ["src/lib.rs"] if status == "partial" else []
    assert paths_of(made, "scip_documents") == expected
    assert set(paths_of(made, "scip_symbols")) <= set(expected)


def test_an_index_cut_at_every_thousandth_byte_gives_what_is_whole_and_says_so(prepared: Prepared) -> None:
    made, file = prepared
    symbols = [information(f"a b c d f{n}().", ["words " * 30]) for n in range(25)]
    go = document("retry.go", occurrence(RETRY, [2, 5, 10], 1), symbols=symbols)
    whole = metadata() + go + document("src/lib.rs", symbols=symbols) + document("use.py", symbols=symbols)
    counts: list[int] = []
    for cut in [*range(0, len(whole), 1000), len(whole)]:
        file.write_bytes(whole[:cut])
        (entry,) = scip_repository("mixed", made).indexers
        assert entry.documents == len(paths_of(made, "scip_documents"))
        assert entry.reason or cut == len(whole)
        counts.append(entry.documents)
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 3)
    assert len(counts) > 10


def test_what_is_no_file_is_not_opened(prepared: Prepared) -> None:
    made, file = prepared
    file.mkdir()
    (entry,) = scip_repository("mixed", made).indexers
    assert (entry.status, entry.reason, entry.sha256) == ("missing", "there is no such file", "")


def test_a_document_of_two_indexes_is_taken_from_the_first(prepared: Prepared, tmp_path: Path) -> None:
    made, first = prepared
    second = tmp_path / "second.scip"
    shared = external(information("a b c d shared()."))
    first.write_bytes(GO_INDEX + shared)
    second.write_bytes(metadata("other") + document("retry.go") + document("cmd/empty.go") + shared)
    report = scip_repository("mixed", with_indexes(made, first, second))
    assert [(entry.documents, entry.files) for entry in report.indexers] == [(1, 2), (1, 1)]
    assert paths_of(made, "scip_documents") == ["cmd/empty.go", "retry.go"]
    assert paths_of(made, "scip_symbols") == ["", "retry.go"]
    assert report.occurrences == 2


def test_no_indexer_runs_for_the_languages_a_given_index_covers(prepared: Prepared) -> None:
    made, file = prepared
    running = made.model_copy(update={"scip": ScipSettings()})
    file.write_bytes(GO_INDEX)
    assert [entry.indexer.split()[0] for entry in scip_repository("mixed", running).indexers] == [
        "scip-go",
        "scip-python",
        "rust-analyzer",
    ]
    file.write_bytes(metadata("mine") + document("use.py"))
    labels = [entry.label.split()[0] for entry in scip_repository("mixed", running).indexers]
    assert labels == ["index.scip", "scip-go", "rust-analyzer"]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["", "{", "\n{", json.dumps(RUST_JSON), "\ufeff"]), st.integers(0, 400))
def test_no_bytes_are_more_than_an_index_or_a_refusal(data: bytes, start: str, cut: int) -> None:
    mixed = start.encode()[:cut] + data
    try:
        index = read_scip_file(mixed)
    except ScipIndexError:
        return
    assert all(isinstance(path, str) for path, _ in index.documents)


def test_an_encoded_index_that_begins_like_json_is_read_as_what_it_is() -> None:
    """Metadata of 123 bytes begins with a line break and a brace."""
    data = metadata("x" * (125 - len(metadata("", ""))), "")
    assert data[:2] == b"\n{"
    assert read_scip_file(data) == read_scip(data)


def test_a_symbol_without_a_name_is_left_out_and_counted(run: Run, repo: Path, tmp_path: Path) -> None:
    """One of them stopped the publish: no symbol of a version may be nameless."""
    (tmp_path / "go.scip").write_bytes(
        metadata("scip-go", "0.1.26")
        + document(
            "retry.go",
            occurrence(RETRY, [2, 5, 10], 1),
            occurrence("", [4, 14, 19]),
            symbols=[information(""), information(RETRY)],
        )
        + external(information(""))
    )
    done = run("index", repo, "--scip", f"mixed={tmp_path / 'go.scip'}")
    assert done.returncode == 0, done.stderr
    assert "2 symbols without a name are left out" in " ".join(done.stderr.split())
    paths, _ = published(tmp_path / "cwd")
    assert [row["symbol"] for row in pq.read_table(paths.table("scip_symbols")).to_pylist()] == [RETRY]
