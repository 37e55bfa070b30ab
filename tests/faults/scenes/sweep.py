"""Kills a publisher at one call after another, or at random, and looks at what it left. Run as a program.

Each victim is a fork of this process, which imported everything once and holds no thread.

    python -m tests.faults.scenes.sweep WHAT TEMPLATE SCRATCH kill STEP       before every STEP-th call, and the last
    python -m tests.faults.scenes.sweep WHAT TEMPLATE SCRATCH random LOOPS    at random times, a reader running

WHAT is publish, import, add (an import that keeps the current version), or name (a publish for a further ref). Whether
versions are complete or lie over a base is the template's matter.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from codequarry.pipelines.publish.publish import publishing
from codequarry.pipelines.publish.retention import prune
from codequarry.schemas.errors import CodequarryError
from tests.faults.scenes.calls import Killer, Recorder, intercepted
from tests.faults.scenes.moving import Adding, Moving
from tests.faults.scenes.scene import NEW, OLD, OLDEST, STAGED, Scene
from tests.faults.scenes.stacked import Naming


def forked(work: Callable[[], object]) -> int:
    """Run in a child: its pid. It ends with 0, or with 1 after an exception."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - reported by the exit code; the child must not go on as the parent
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)
    os._exit(0)


def judge(scene: Scene, acknowledged: bool) -> str:
    """Check what a dead publisher left, and that the next run puts it right. Returns NEW where it stayed, else OLD."""
    adding = isinstance(scene, Adding)
    found = scene.check(allowed=(OLD,) if adding else (NEW,) if acknowledged else (OLD, NEW))
    with publishing(scene.root):
        prune(scene.root, scene.settings.bundle)
    assert scene.check(allowed=(found,)) == found
    listed = scene.root.version_names()
    naming = isinstance(scene, Naming)
    assert (OLDEST if naming else OLD) in listed, "the version to roll back to is gone"
    assert not naming or (OLD in listed) == (found == OLD), "a version that the ref left stayed"
    assert adding or (NEW in listed) == (found == NEW), "a version nobody was told of stayed"
    assert NEW in listed or not acknowledged, "an acknowledged version is gone"
    left = [name for name in scene.litter() if not name.startswith(STAGED)]
    assert left == [], f"left behind: {left}"
    stayed = NEW if NEW in listed else OLD
    try:
        scene.publish()
    except CodequarryError:
        return stayed  # its folder is gone: already published, or thrown away; the next run stages again
    assert scene.check(allowed=(OLD,) if adding else (NEW,))
    assert NEW in scene.root.version_names()
    assert not any(name.startswith(".staging") for name in scene.litter())
    return stayed


def kill_at_every_call(template: Scene, scratch: Path, step: int) -> dict[str, int]:
    recorder = Recorder()
    scene = template.copy(scratch / "count")
    with intercepted(scene.base, recorder):
        scene.publish()
    outcomes = {"calls": len(recorder.calls), OLD: 0, NEW: 0}
    for n in sorted({*range(1, len(recorder.calls), step), len(recorder.calls)}):
        scene = template.copy(scratch / "victim")

        def victim(scene: Scene = scene, n: int = n) -> None:
            with intercepted(scene.base, Killer(n)):
                scene.publish()

        _, status = os.waitpid(forked(victim), 0)
        assert os.WIFSIGNALED(status), f"call {n} was not reached: {status}"
        outcomes[judge(scene, acknowledged=False)] += 1
        shutil.rmtree(scene.base)
    return outcomes


def kill_at_random(template: Scene, scratch: Path, loops: int) -> dict[str, int]:
    dice = random.Random(0)
    scene = template.copy(scratch / "timing")
    started = time.perf_counter()
    scene.publish()
    longest = (time.perf_counter() - started) * 1.3
    outcomes = {"reads": 0, OLD: 0, NEW: 0}
    for _ in range(loops):
        scene = template.copy(scratch / "victim")
        reads, write = os.pipe()

        def read_forever(scene: Scene = scene, write: int = write) -> None:
            while True:
                scene.check_current(allowed=(OLD, NEW))
                os.write(write, b".")

        reader = forked(read_forever)
        os.read(reads, 1)  # it has read once
        publisher = forked(scene.publish)
        time.sleep(dice.uniform(0, longest))
        os.kill(publisher, signal.SIGKILL)
        _, status = os.waitpid(publisher, 0)
        os.kill(reader, signal.SIGKILL)
        _, seen = os.waitpid(reader, 0)
        assert os.WIFSIGNALED(seen), "the reader met an error"
        os.close(write)
        outcomes["reads"] += 1 + len(os.read(reads, 1 << 16))
        os.close(reads)
        outcomes[judge(scene, acknowledged=status == 0)] += 1
        shutil.rmtree(scene.base)
    return outcomes


if __name__ == "__main__":
    what, template, scratch, kind, number = sys.argv[1:]
    sweeps = {"kill": kill_at_every_call, "random": kill_at_random}
    scenes = {"publish": Scene, "import": Moving, "add": Adding, "name": Naming}
    sys.stdout.write(json.dumps(sweeps[kind](scenes[what](Path(template)), Path(scratch), int(number))))
