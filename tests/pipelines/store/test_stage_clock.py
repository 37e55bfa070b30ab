"""The seconds that a run reports by stage."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from codequarry.pipelines.store.stage_clock import StageClock


def test_times_of_a_stage_are_added_up_in_the_order_in_which_stages_began() -> None:
    clock = StageClock()
    with clock.time("embed"):
        pass
    with clock.time("chunk"), pytest.raises(ValueError), clock.time("scip"):
        raise ValueError
    with clock.time("embed"):
        time.sleep(0.5)
    assert list(clock.seconds) == ["embed", "scip", "chunk"]
    # The kernel counts in ticks of 10 ms, and other threads of the process count too.
    assert clock.seconds["embed"] >= 0.5 > clock.cpu_seconds["embed"]


def test_child_processes_that_ended_count() -> None:
    clock = StageClock()
    # The kernel counts in ticks of 10 ms, and rounds each of its sums.
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    with clock.time("scip"):
        subprocess.run([sys.executable, "-c", busy], check=True)
    assert clock.cpu_seconds["scip"] >= 0.1
