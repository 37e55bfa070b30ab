"""F4 on a real full file system: a small tmpfs in a namespace of its own, with an older version present."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import can_mount
from tests.pipelines.corpus import write_shop

PROJECT = Path(__file__).resolve().parents[3]
MOUNT = 'mount -t tmpfs -o size=60m none "$1" && exec "$2" -c "$3" "$1" "$4" "$5"'
PROGRAM = """
import json, os, sys
from pathlib import Path
from codequarry.pipelines.bundle import disk_space
from codequarry.pipelines.run import index_repositories
from codequarry.serving.files.disk import Space
from codequarry.schemas.errors import CodequarryError
from codequarry.serving.files.integrity import is_whole
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, Settings
from codequarry.schemas.settings.load import RepositorySettings, SourcesSettings

disk, store, repo = map(Path, sys.argv[1:])
settings = Settings(
    paths=PathsSettings(store=store, work=store.parent / "work"), bundle=BundleSettings(root=disk / "bundles"),
    sources=SourcesSettings(repositories=(RepositorySettings(path=repo),)),
)
try:
    index_repositories(settings)
    early = ""
except CodequarryError as error:
    early = error.message  # 60 MB are less than the reserve
# As when somebody else takes the room between the check and the work.
disk_space.free_bytes = lambda path: 1 << 40
disk_space.room_for_version = lambda root: Space(root.path, 1 << 40, 0)
first = index_repositories(settings).manifest.version
(repo / "more.py").write_text("def more():\\n    return 1\\n")
failures = []
for spare in (0, 20_000, 100_000, 400_000):
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler = disk / "filler"
    filler.write_bytes(b"x" * max(0, free - spare))
    try:
        index_repositories(settings)
        failures.append("published")
    except CodequarryError as error:
        failures.append(str(error))
    root = BundleRoot(disk / "bundles")
    litter = sorted(path.name for path in root.versions.glob(".*"))
    failures[-1] += "|" + ",".join([root.read_current().version, *litter])
    assert is_whole(root.version(first))
    filler.unlink()
second = index_repositories(settings).manifest.version
print(json.dumps({"early": early, "first": first, "second": second, "failures": failures}))
"""


def namespaces_work(folder: Path) -> bool:
    return can_mount('mount -t tmpfs none "$1"', folder)


@pytest.mark.slow
def test_a_file_system_that_runs_full_leaves_the_old_version_and_no_litter(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not namespaces_work(disk):
        pytest.skip("no user namespaces here; tests/pipelines/publish/test_publishing.py limits file sizes instead")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(disk), sys.executable, PROGRAM, str(tmp_path / "store"),
         str(write_shop(tmp_path))],
        cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert "MB are free" in report["early"]
    assert len(report["failures"]) == 4
    for failure in report["failures"]:
        said, _, left = failure.partition("|")
        assert left == report["first"], "old version current, nothing staged"
        assert "free disk space" in said
    assert report["second"] > report["first"]
