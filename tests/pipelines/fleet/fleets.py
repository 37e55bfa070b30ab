"""A small fleet for tests: six repositories, a settings file, and its commands."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codequarry.pipelines.fleet.fleet_store import FleetStore
from codequarry.pipelines.publish.remote.store import RemoteStore
from codequarry.schemas.fleet.generation import FleetManifest
from tests.pipelines.cli.watch.watch_process import DEADLINE_S
from tests.pipelines.conftest import Run
from tests.pipelines.repositories import commit

NAMES = ("ant", "bee", "cat", "dog", "eel", "fox")


class Fleet:
    """Six repositories, and a settings file that lists them."""

    def __init__(self, run: Run, home: Path, url: str) -> None:
        self.run, self.home, self.url = run, home, url
        self.remote: tuple[str, ...] = ()
        """Repositories that are fetched."""
        for name in NAMES:
            commit(home / name, {f"{name}.py": f"def {name}(x):\n    return x + {len(name)}\n"})
        self.write()

    def write(
        self,
        *more: str,
        names: tuple[str, ...] = NAMES,
        ref: str = "HEAD",
        file: str = "fleet.toml",
        sizes: tuple[int, int] = (2, 4),
    ) -> None:
        places = {name: f'path = "{name}", ref = "{ref}"' for name in names}
        places |= {name: f'url = "file://{self.home}/{name}", name = "{name}"' for name in self.remote}
        listed = ", ".join(f"{{ {place} }}" for place in places.values())
        lines = [
            "[sources]", f"repositories = [{listed}]", "[retrieval]", "enabled = false",
            "[fleet]", f'url = "{self.url}"', f"bundle_chunks = {sizes[0]}", f"bundle_chunks_max = {sizes[1]}", *more,
        ]  # fmt: skip
        (self.home / file).write_text("\n".join(lines) + "\n")

    def __call__(self, *words: str, code: int = 0, file: str = "fleet.toml") -> str:
        """Run a command of the fleet; return what it said."""
        done = self.run("fleet", *words, "--settings", file)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return " ".join((done.stdout + done.stderr).split())

    def json(self, *words: str) -> Any:
        done = self.run("fleet", *words, "--json", "--settings", "fleet.toml")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def store(self) -> FleetStore:
        return FleetStore(RemoteStore.open(self.url))

    @property
    def current(self) -> FleetManifest:
        return self.store.require_current().manifest

    def save(self, name: str, word: str) -> str:
        return commit(self.home / name, {f"{name}.py": f"def {name}(x):\n    return x - {word!r}\n"})


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds, and fail with words when it does not."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def sent(said: str) -> float:
    """Megabytes that travelled, as the last line says."""
    return float(re.findall(r"([\d.]+) MB travelled", said)[-1])
