"""How far a version may be from CURRENT: each measure alone, what is not judged, and the way past it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from codequarry.pipelines.gates import drift
from codequarry.pipelines.gates.accept import checked_reason, judge
from codequarry.pipelines.gates.drift import drift_checks
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import (
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    Manifest,
    SourceEntry,
    WarpEntry,
)
from codequarry.schemas.bundle.tables import FILES, write_table
from codequarry.schemas.errors import InvalidArgumentError, PublishError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.version.check import Check
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit

VERSION = "20260101T000000Z-0123abcd"
ENCODER = EncoderEntry(name="m", fingerprint="f" * 64, dim=3)
BEFORE = SourceEntry(
    name="app", commit="a", dirty=False, tree_sha256="0" * 64, files=100, chunks=400,
    classes={"source": 80, "test": 20}, skipped={"binary": 5}, secrets={"jwt": 2},
)  # fmt: skip
WARP = WarpEntry(
    key="0" * 64, profile="standard", bits=4, punctuation=False, documents=400, tokens=40_000, centroids=64,
    encoder=ENCODER,
)  # fmt: skip


def manifest(*sources: SourceEntry, size: int = 4_000_000, **more: object) -> Manifest:
    entries = sources or (BEFORE,)
    return Manifest(
        version=VERSION, created="2026-01-01T00:00:00Z", digest="0", settings_sha256="1" * 64, tools={},
        sources=entries, encoder=ENCODER, faiss=FaissEntry(factory="Flat", exact=True),
        counts=Counts(files=1, skipped_files=0, chunks=sum(source.chunks for source in entries)),
        compatibility=compatibility(ENCODER.fingerprint),
        files=(FileEntry(path="faiss.index", size_bytes=size, sha256="2" * 64),),
    ).model_copy(update=more)  # fmt: skip


def files(folder: Path, languages: dict[str, int]) -> BundlePaths:
    """A version's table of files, with so many of each language."""
    paths = BundlePaths(folder)
    paths.tables.mkdir(parents=True)
    rows = [
        {**dict.fromkeys(FILES.names, ""), "repo": "app", "path": f"{language}{number}", "lang": language}
        | {"size_bytes": 1, "lines": 1, "parsed": True, "syntax_errors": False}
        for language, count in languages.items()
        for number in range(count)
    ]
    write_table(paths.table("files"), pa.Table.from_pylist(rows, FILES), FILES)
    return paths


def broken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: Manifest,
    before: Manifest | None = None,
    languages: tuple[dict[str, int], dict[str, int]] = ({"go": 60, "sql": 40}, {"go": 60, "sql": 40}),
    **limits: object,
) -> list[str]:
    """Names of the checks that fail between two versions."""
    monkeypatch.setattr(drift, "current_manifest", lambda root: before or manifest())
    files(tmp_path / "versions" / VERSION, languages[0])
    settings = Settings.model_validate({"drift": limits})
    checks = drift_checks(BundleRoot(tmp_path), files(tmp_path / "staged", languages[1]), after, settings)
    assert [check.name for check in checks] == list(drift.DRIFT)
    assert all(check.regression and check.found and check.expected for check in checks)
    assert all(check.passed or check.examples for check in checks)
    return [check.name for check in checks if not check.passed]


def changed(**values: object) -> Manifest:
    return manifest(BEFORE.model_copy(update=values))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (manifest(), []),
        (changed(files=69, chunks=276), [drift.LOST]),
        (changed(files=71, chunks=284), []),
        (changed(files=301, chunks=1204), [drift.GREW, drift.BYTES]),
        (changed(classes={"source": 10, "test": 90}), [drift.CLASSES]),
        (changed(skipped={"binary": 5, "too_large": 40}), [drift.SKIPPED]),
        (changed(skipped={}), []),
        (changed(secrets={"jwt": 2, "github-pat": 11}), [drift.SECRETS]),
        (changed(secrets={"github-pat": 12}), []),
        (changed(secrets={}), []),
        (changed(secrets=None), []),
        (changed(chunks=250), [drift.CHUNKS, drift.BYTES]),
        (manifest(size=12_000_000), [drift.BYTES]),
        (manifest(encoder=ENCODER.model_copy(update={"fingerprint": "e" * 64})), [drift.ENCODERS]),
        (manifest(warp=WARP.model_copy(update={"tokens": 20_000})), [drift.TOKENS]),
        (manifest(warp=WARP), []),
    ],
    ids=[
        "nothing", "files lost", "files lost, some", "files came", "classes", "skipped more", "skipped fewer",
        "secrets", "some secrets", "secrets gone", "not looked for", "chunks", "bytes", "encoder", "tokens",
        "the same tokens",
    ],
)  # fmt: skip
def test_each_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: Manifest, expected: list[str]) -> None:
    assert broken(tmp_path, monkeypatch, after, manifest(warp=WARP)) == expected


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        ({"go": 60, "sql": 40}, []),
        ({"go": 60}, [drift.LANGUAGE_LOST, drift.LANGUAGES]),
        ({"go": 60, "sql": 40, "lua": 90}, [drift.LANGUAGES]),
        ({"go": 58, "sql": 42}, []),
    ],
    ids=["nothing", "one is gone", "another came", "a little"],
)
def test_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, languages: dict, expected: list[str]) -> None:
    before = {"go": 60, "sql": 40}
    assert broken(tmp_path, monkeypatch, manifest(), languages=(before, languages)) == expected


@pytest.mark.parametrize(
    ("after", "limits"),
    [
        (changed(files=9, chunks=36, name="other"), {}),
        (changed(files=9, chunks=36, url="https://example.org/app"), {}),
        (changed(files=9, chunks=36), {"min_files": 101}),
        (changed(files=9, chunks=36), {"max_files_lost": 1.0, "max_ratio": 12}),
        (manifest(settings_sha256="9" * 64, encoder=ENCODER.model_copy(update={"fingerprint": "e" * 64})), {}),
        (manifest(encoder=ENCODER.model_copy(update={"fingerprint": "e" * 64})), {"encoders_may_change": True}),
    ],
    ids=["another repository", "the name of another", "small", "tolerated", "other settings", "allowed"],
)
def test_what_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: Manifest, limits: dict[str, object]
) -> None:
    assert broken(tmp_path, monkeypatch, after, **limits) == []


def test_a_current_that_cannot_be_read_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = files(tmp_path / "staged", {"go": 100})
    assert drift_checks(BundleRoot(tmp_path), staged, manifest(), Settings()) == []  # there is none
    monkeypatch.setattr(drift, "current_manifest", lambda root: manifest())
    held = files(tmp_path / "versions" / VERSION, {"sql": 100})
    held.table("files").write_bytes(b"PAR1 torn")
    assert all(check.passed for check in drift_checks(BundleRoot(tmp_path), staged, manifest(), Settings()))


def test_only_regressions_are_accepted_and_only_for_a_reason() -> None:
    sound, worse = Check("sound", True, "1", "1"), Check("worse", False, "3", "at most 2", ("app",), regression=True)
    wrong = Check("wrong", False, "1", "0")
    (entry,) = judge("v", [sound, worse], "it is meant")
    assert (entry.check, entry.found, entry.expected, entry.reason) == ("worse", "3", "at most 2", "it is meant")
    assert judge("v", [sound], "it is meant") == ()
    with pytest.raises(PublishError, match=r"worse: 3, expected at most 2 \(for example app\).*--accept-regression"):
        judge("v", [sound, worse])
    with pytest.raises(PublishError, match="wrong: 1") as caught:
        judge("v", [worse, wrong], "it is meant")
    assert "worse" not in caught.value.message


def test_a_reason_says_something() -> None:
    assert (checked_reason(None), checked_reason(" two\n lines ")) == ("", "two lines")
    for reason in ("", " \n", "x" * 1001):
        with pytest.raises(InvalidArgumentError, match="expected 1 to 1000"):
            checked_reason(reason)


def test_the_command_line_stops_takes_the_reason_and_shows_it(run: Run, tmp_path: Path) -> None:
    repo = tmp_path / "app"
    commit(repo, {f"part{number}.py": f"def part{number}():\n    return {number}\n" for number in range(12)})
    assert run("index", repo).returncode == 0
    for number in range(8):
        (repo / f"part{number}.py").unlink()
    stopped = run("index", repo)
    told = " ".join(stopped.stderr.split())
    assert stopped.returncode == 2
    assert "indexed files that went: app: 12 -> 4 files (67%), expected at most 30%" in told
    assert "--accept-regression REASON" in told
    assert run("index", repo, "--accept-regression", " ").returncode == 2
    done = run("index", repo, "--accept-regression", "eight [parts] are gone")
    assert done.returncode == 0, done.stderr
    assert "eight [parts] are gone" in " ".join(done.stderr.split())
    assert "accepted: indexed files that went" in run("versions").stdout
    assert "accepted: eight [parts] are gone" in " ".join(run("doctor", "--all").stdout.split())
