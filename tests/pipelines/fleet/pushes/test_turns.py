"""The order in which pushes and polls are looked at."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.fleet.pushes.moved_repositories import MovedRepositories
from codequarry.pipelines.fleet.pushes.polled_pages import PAGE, PolledPages, seconds_between


@given(st.sets(st.integers(0, 999), max_size=450), st.integers(0, 999))
def test_every_repository_is_asked_once_in_a_turn(numbers: set[int], begin: int) -> None:
    names = [f"r{number:03d}" for number in numbers]
    pages = PolledPages(Path("/nonexistent/polled.json"))
    pages._after = f"r{begin:03d}"
    asked: list[str] = []
    for _ in range(-(-len(names) // PAGE)):
        page = pages.next_page(names)
        assert len(page) <= PAGE
        pages._after = page[-1]
        asked += page
    assert set(asked) == set(names)
    assert len(asked) < len(names) + PAGE


def test_a_restart_goes_on_after_the_last_page(tmp_path: Path) -> None:
    names = [f"r{number:03d}" for number in range(250)]
    pages = PolledPages(tmp_path / "polled.json")
    first = pages.next_page(names)
    assert first == pages.next_page(names)  # asked again until it is kept that it was
    pages.move_on(first)
    second = PolledPages(tmp_path / "polled.json").next_page(names)
    assert second == tuple(names[100:200])
    (tmp_path / "polled.json").write_text("nonsense")
    assert PolledPages(tmp_path / "polled.json").next_page(names) == first


def test_a_large_fleet_is_asked_in_as_much_time_as_a_small_one() -> None:
    for repositories in (0, 1, 99, 100, 101, 5_000):
        pages = max(1, -(-repositories // PAGE))
        assert seconds_between(300, repositories) * pages == 300


def test_pushes_of_a_moment_are_taken_together() -> None:
    moved = MovedRepositories(quiet_s=0.2, longest_s=5)
    assert moved.take(0.01) == frozenset()

    def push() -> None:
        for name in ("ant", "bee", "ant", "cat"):
            moved.add([name])
            time.sleep(0.02)

    pushing = threading.Thread(target=push)
    pushing.start()
    assert moved.take(30) == {"ant", "bee", "cat"}
    pushing.join()
    moved.add([])
    assert moved.waiting == 0 and moved.take(0.01) == frozenset()


def test_pushes_without_end_do_not_keep_the_first_one_waiting() -> None:
    moved = MovedRepositories(quiet_s=60, longest_s=0.3)
    moved.add(["ant"])
    assert moved.take(60) == {"ant"}
