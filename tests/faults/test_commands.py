"""`verify`, `versions`, `doctor`, `rollback`, `prune` as a person runs them, over a root with something wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from codequarry.pipelines.cli import root as cli
from codequarry.schemas.bundle.layout import Current
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.lease import hold_version
from tests.faults.scenes.scene import NEW, OLD, OLDEST, Scene

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the console script against the scene: (exit code, stdout, stderr)."""
    monkeypatch.chdir(scene.base)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("CODEQUARRY__BUNDLE__KEEP_VERSIONS", "2")

    def command(*arguments: object) -> tuple[int, str, str]:
        line = ["codequarry", *map(str, arguments), "--root", str(scene.root.path)]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return (left.value.code if isinstance(left.value.code, int) else 0), out, err

    return command


def flip(scene: Scene, version: str, name: str = "tables/scip_symbols.parquet") -> None:
    file = scene.root.version(version).path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_verify_quick_and_deep(run: Run, scene: Scene) -> None:
    assert run("verify")[0] == 0
    flip(scene, OLD)
    code, out, _ = run("verify")
    assert code == 0 and out.startswith(f"{OLD} is whole: ") and "names and sizes" in out
    code, out, err = run("verify", "--deep")
    assert (code, out) == (2, "")
    assert "tables/scip_symbols.parquet: sha256" in err
    code, out, _ = run("verify", OLDEST, "--deep")
    assert code == 0 and "every byte of" in out
    code, _, err = run("verify", "20200101T000000Z-0123abcd")
    assert code == 1 and f"there are: {OLDEST}, {OLD}" in err


def test_versions_shows_sizes_and_states(run: Run, scene: Scene) -> None:
    scene.publish()
    with hold_version(scene.root.version(OLD)):
        rows = json.loads(run("versions", "--json")[1])
    assert [(row["version"], row["state"]) for row in rows] == [(OLD, "held"), (NEW, "current")]
    manifests = [scene.root.version(row["version"]).manifest.stat().st_size for row in rows]
    assert all(0 < row["unique_bytes"] < row["size_bytes"] + own for row, own in zip(rows, manifests, strict=True))
    scene.root.current.write_bytes(b"torn")
    code, out, err = run("versions")
    assert code == 2 and NEW in out and "codequarry rollback" in err


def test_rollback_and_prune(run: Run, scene: Scene) -> None:
    scene.publish()
    code, out, err = run("rollback")
    assert code == 0 and out.strip().endswith(OLD) and f"was {NEW}" in err
    code, out, err = run("rollback")
    assert code == 1 and "no version before the current one" in err
    assert run("rollback", NEW)[0] == 0
    assert scene.current() == NEW


def test_prune_says_what_goes_and_what_is_held(run: Run, scene: Scene) -> None:
    assert run("prune", "--dry-run")[:2] == (0, "")
    half = scene.root.versions / f".removed-{OLDEST}"
    scene.root.version(OLDEST).path.rename(half)
    (half / "manifest.json").unlink()
    code, out, err = run("prune")
    assert (code, out) == (0, "") and f".removed-{OLDEST}" in err
    assert scene.litter() == [".staging-scene"]
    assert run("prune", "--keep", "1")[0] == 2


def test_prune_and_rollback_make_nothing_where_nothing_is(run: Run, scene: Scene, monkeypatch) -> None:
    for command in ("prune", "rollback", "verify"):
        monkeypatch.setattr(sys, "argv", ["codequarry", command, "--root", str(scene.base / "nowhere")])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 2
    assert not (scene.base / "nowhere").exists()


def findings(run: Run) -> tuple[int, dict[tuple[str, str], dict[str, str]]]:
    code, out, _ = run("doctor", "--json")
    report = json.loads(out)
    assert report["exit_code"] == code
    return code, {(row["area"], row["name"]): row for row in report["findings"] if row["level"] != "ok"}


def test_doctor_names_what_is_wrong_and_how_bad_it_is(run: Run, scene: Scene) -> None:
    flip(scene, OLDEST)
    _, bad = findings(run)
    assert bad[(OLDEST, "files")]["level"] == "warning"
    assert (OLD, "query encoder") in bad  # versions of the factory have none
    flip(scene, OLD)
    code, bad = findings(run)
    assert (code, bad[(OLD, "files")]["level"]) == (2, "error")
    scene.root.current.write_bytes(b"torn")
    code, bad = findings(run)
    assert code == 2 and "rollback" in bad[("current", "CURRENT")]["suggestion"]


def test_doctor_sees_what_killed_runs_left_and_prune_removes_it(run: Run, scene: Scene) -> None:
    manifest = scene.root.version(OLD)
    scene.root.publishing.write_text(Current(NEW, "0" * 64).line())
    (scene.root.versions / ".staging-dead").mkdir()
    (scene.root.versions / f".removed-{NEW}").mkdir()
    left = {row["found"] for row in json.loads(run("doctor", "--json")[1])["findings"] if row["area"] == "leftovers"}
    assert {one.split(",")[0] for one in left} == {
        f"the publish of {NEW} was cut off before CURRENT named it",
        ".staging-dead",
        f".removed-{NEW}",
        ".staging-scene waits to be published",
    }
    assert run("prune")[0] == 0
    left = [row for row in json.loads(run("doctor", "--json")[1])["findings"] if row["area"] == "leftovers"]
    assert [row["level"] for row in left] == ["note"]
    assert manifest.manifest.is_file()
    out = run("doctor", "--all")[1]
    assert f"{OLD}: files: " in out and "waits to be published" in out
    assert f"{OLD}: files: " not in run("doctor")[1], "what is well is counted"


def test_a_catalog_with_a_view_that_reads_elsewhere_is_found_and_not_followed(run: Run, scene: Scene) -> None:
    """A bundle may come from another machine: its SQL must not read this one's files."""
    import duckdb

    from codequarry.serving.files.integrity import read_manifest
    from codequarry.serving.version.file_checks import check_version

    paths = scene.root.version(OLD)
    with duckdb.connect(str(paths.catalog)) as connection:
        connection.execute("CREATE OR REPLACE VIEW chunks AS SELECT * FROM read_csv('/etc/passwd')")
        connection.execute("DROP TABLE files_mat")
        connection.execute("CREATE VIEW files_mat AS SELECT * FROM read_text('/etc/passwd')")
    with pytest.raises(IntegrityError, match="cannot be read"):
        check_version(paths, read_manifest(paths))
