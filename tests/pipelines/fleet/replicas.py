"""Replicas made by hand: bundles of one repository each, and the one bundle of all beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.fleet.replica import REPLICA_FORMAT, HeldGeneration, ReplicaRoot
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import read_manifest
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit

NAMES = ("billing", "ledger", "webshop")
MODULE = '''
"""{title} of the {name}."""

LIMIT_OF_{upper} = {number}


class {camel}Store:
    """Keeps {what} of the {name} until they are settled."""

    def open_store(self, path: str) -> None:
        """Open the store of {what}."""
        self.path = path

    def remove_expired(self, now: int) -> int:
        """Remove {what} that expired before now."""
        return now - LIMIT_OF_{upper}


def retry_{name}(count: int) -> int:
    """Try {what} again with an exponential backoff."""
    return {camel}Store().remove_expired(2**count)
'''
TEST = """
from {name}.store import {camel}Store, retry_{name}


def test_retry() -> None:
    assert retry_{name}(3) > 0
    assert {camel}Store().remove_expired(9)
"""
WHAT = {"billing": "invoices", "ledger": "bookings", "webshop": "baskets"}


def write_repository(folder: Path, name: str, more: str = "") -> None:
    """Write a small repository of a kind, as a commit."""
    fields = {"name": name, "camel": name.capitalize(), "upper": name.upper(), "what": WHAT.get(name, "things")}
    files: dict[str, str | bytes] = {
        f"{name}/store.py": MODULE.format(title="Store", number=len(name), **fields) + more,
        f"{name}/clock.py": f'def now_{name}() -> int:\n    """Tell the time of the {name}."""\n    return 7\n',
        f"tests/test_{name}.py": TEST.format(**fields),
        "README.md": f"# {name}\n\nThe {name} keeps {fields['what']}. Sessions expire after an hour.\n",
        "common/shared.py": f'SHARED = "{name}"\n\n\ndef shared_helper() -> str:\n    return SHARED\n',
    }
    commit(folder, files)


@dataclass(frozen=True)
class Replica:
    """A replica with a bundle for each repository, and a bundle of all."""

    folder: Path
    repositories: Path
    settings: dict[str, Settings]
    together: Settings

    @property
    def root(self) -> ReplicaRoot:
        return ReplicaRoot(self.folder)

    def index(self, name: str) -> None:
        """Index one repository into its bundle."""
        index_repositories(self.settings[name])

    def hold(self, generation: int) -> HeldGeneration:
        """Write ``fleet.json``, as a pull does, for what the bundle roots hold now."""
        bundles = {f"b{number:04d}": self._entry(name) for number, name in enumerate(self.settings, 1)}
        content = {
            "format_version": REPLICA_FORMAT,
            "url": "file:///fleet",
            "sha256": f"{generation:064x}",
            "share": "1/1",
            "pulled": "2026-11-25T00:00:00Z",
            "fleet": {
                "generation": generation,
                "created": "2026-11-25T00:00:00Z",
                "origin": {"act": "build", "parent": generation - 1},
                "next_bundle": len(bundles) + 1,
                "bundles": bundles,
            },
        }
        held = HeldGeneration.model_validate_json(json.dumps(content))
        new = self.folder / "fleet.json.new"
        new.write_text(held.model_dump_json())
        new.replace(self.root.file)
        return held

    def _entry(self, name: str) -> dict[str, object]:
        root = BundleRoot(self.settings[name].bundle.root)
        current = root.read_current()
        manifest: Manifest = read_manifest(root.version(current.version))
        return {
            "version": current.version,
            "manifest_sha256": current.manifest_sha256,
            "digest": manifest.digest,
            "encoders": [leg.encoder.fingerprint for leg in manifest.legs],
            "settings_sha256": manifest.settings_sha256,
            "chunks": manifest.counts.chunks,
            "size_bytes": sum(entry.size_bytes for entry in manifest.files),
            "repositories": {
                name: {
                    "commit": manifest.sources[0].commit,
                    "dirty": False,
                    "tree_sha256": manifest.sources[0].tree_sha256,
                    "chunks": manifest.counts.chunks,
                    "indexed": manifest.created,
                }
            },
        }


def build_replica(base: Path, make_settings: MakeSettings) -> Replica:
    """Make the repositories, a bundle of each below a replica, and a bundle of all."""
    folder, repositories = base / "replica", base / "repositories"
    settings: dict[str, Settings] = {}
    for number, name in enumerate(NAMES, 1):
        write_repository(repositories / name, name)
        own = make_settings(repositories / name, home=base / name)
        bundle = own.bundle.model_copy(update={"root": ReplicaRoot(folder).bundle(f"b{number:04d}").path})
        settings[name] = own.model_copy(update={"bundle": bundle})
    together = make_settings(*(repositories / name for name in NAMES), home=base / "together")
    replica = Replica(folder, repositories, settings, together)
    for name in NAMES:
        replica.index(name)
    index_repositories(together)
    replica.hold(1)
    return replica
