"""docs/BUNDLE.md names every field and file; the commands of operators run, in order, on a real bundle."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import minisign
import pytest

from codequarry.pipelines.embed.encoders import SHIPPED
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import FORMAT_VERSION
from codequarry.schemas.fleet.generation import FleetManifest
from codequarry.schemas.fleet.replica import HeldGeneration
from codequarry.serving.files.integrity import list_files, read_manifest
from codequarry.serving.version.file_checks import check_version
from tests.contracts.gates import gates
from tests.contracts.manifest_fields import CHECKSUM, rows
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

PROJECT = Path(__file__).resolve().parents[2]
BUNDLE = (PROJECT / "docs" / "BUNDLE.md").read_text(encoding="utf-8")
FLEET = (PROJECT / "docs" / "FLEET.md").read_text(encoding="utf-8")
OPERATIONS, GATES = ((PROJECT / "docs" / name).read_text(encoding="utf-8") for name in ("OPERATIONS.md", "GATES.md"))


def test_every_field_of_the_manifest_is_documented_with_its_meaning() -> None:
    expected = [*rows(), CHECKSUM]
    assert len(expected) > 45
    assert [row for row in expected if row not in BUNDLE] == []
    documented = re.findall(r"^\| `[a-z_\[\].0-9]+` \| .*\|$", BUNDLE.partition("## manifest.json")[2], re.MULTILINE)
    assert [row for row in documented if row not in expected and row.startswith("| `")] == []


def test_every_field_of_a_generation_and_of_a_replica_is_documented() -> None:
    expected = [*rows(FleetManifest), CHECKSUM, *(row for row in rows(HeldGeneration) if "`fleet." not in row)]
    assert [row for row in expected if row not in FLEET] == []
    documented = re.findall(r"^\| `[a-z_*.0-9]+` \| .*\|$", FLEET.partition("## The generation")[2], re.MULTILINE)
    assert [row for row in documented if row not in expected] == []


def test_every_format_is_documented() -> None:
    assert f"Format {FORMAT_VERSION}." in BUNDLE
    assert all(f"\n| {number} | " in BUNDLE for number in range(1, FORMAT_VERSION + 1))


def test_every_file_of_a_version_and_every_hidden_name_is_documented(tmp_path: Path) -> None:
    paths = write_bundle(tmp_path, PIECES, factory="HNSW8,Flat")
    names = {name.partition("/")[0] if "/" in name else name for name in list_files(paths.path)} | {"encoder"}
    assert {"tables", "bm25", "faiss.index", "manifest.json"} <= names
    assert [name for name in names if f"`{name}" not in BUNDLE] == []
    root = BundleRoot(tmp_path)
    assert [path.name for path in (root.current, root.publishing, root.lock) if f"`{path.name}`" not in BUNDLE] == []


@pytest.mark.slow
def test_the_commands_of_operators_run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", OPERATIONS + GATES, re.DOTALL)
    lines = [line.removeprefix("codequarry ") for block in blocks for line in block.splitlines()]
    verbs = {line.split()[0] for line in lines}
    assert verbs == {
        "index", "versions", "verify", "doctor", "gates", "rollback", "prune", "store", "export", "import", "usage",
        "push", "pull", "token",
    }  # fmt: skip
    app, shared = tmp_path / "app", tmp_path_factory.mktemp("shared")
    app.mkdir()
    (app / "main.py").write_text("def main():\n    '''Start.'''\n    return 0\n")
    pair = minisign.KeyPair.generate()
    (tmp_path / "minisign.key").write_bytes(bytes(pair.secret_key))
    (tmp_path / "minisign.pub").write_bytes(bytes(pair.public_key))
    root = BundleRoot(tmp_path / ".codequarry" / "bundles")
    for line in lines:
        newest = root.version_names()[-1] if root.version_names() else ""
        given = {"~/src/app": str(app), "$NEWEST": newest, "/mnt/shared": str(shared)}
        for name, value in given.items():
            line = line.replace(name, value)
        arguments = line.split()
        done = subprocess.run(
            [sys.executable, "-m", "codequarry.pipelines.cli", *arguments],
            cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"codequarry {line}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip() or arguments[0] == "prune"
    assert root.read_current().version == root.version_names()[-1]


def test_every_gate_is_on_its_page_with_what_to_do(tmp_path: Path) -> None:
    section = GATES.partition("\n## When the answers are worse")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:2] == "| "
    ]
    listed = {name for row in rows for name in (row[1].split("; ") if len(row) == 3 else row[:1])}
    by_table = gates()
    assert [name for names in by_table.values() for name in names if name not in listed] == []
    # What is left says which gates there are when they look at a version.
    paths = write_bundle(tmp_path, PIECES, encoder=SHIPPED)
    seen = {check.name for check in check_version(paths, read_manifest(paths))}
    asked = {re.sub(r"^(rows of table) \w+", r"\1 …", name) for name in seen}
    assert len(asked) > 60
    assert sorted(asked - listed) == []
    assert all(row[-1] for row in rows)
