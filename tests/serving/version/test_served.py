"""Leases: no request sees a closed version, and every replaced version is closed once."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.served import Served


class Version:
    """Stands for a bundle: knows how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0
        self.manifest = SimpleNamespace(version="one")
        self.directory = SimpleNamespace(chunk_ids=np.array([2, 5, 9]))

    def close(self) -> None:
        self.closed += 1


def served(version: Version) -> Served:
    slot = Served(version)  # pyright: ignore[reportArgumentType]
    slot.close_idle = lambda bundle: bundle.close()
    return slot


@given(st.lists(st.sampled_from(["swap", "refuse", "enter", "leave first", "leave last"]), max_size=40))
def test_a_version_is_closed_when_it_is_replaced_and_its_last_request_ended(steps: list[str]) -> None:
    versions = [Version()]
    current: Version | None = versions[0]
    slot = served(versions[0])
    running: list[tuple[ExitStack, Version]] = []
    for step in [*steps, *["leave last"] * len(steps)]:
        if step == "swap":
            current = Version()
            versions.append(current)
            slot.swap(current)
        elif step == "refuse":
            current = None
            slot.refuse(UnavailableError("damaged"))
        elif step == "enter" and current is None:
            with pytest.raises(UnavailableError, match="damaged"), slot.lease():
                pass
        elif step == "enter":
            stack = ExitStack()
            assert stack.enter_context(slot.lease()) is current
            running.append((stack, current))
        elif running:
            running.pop(0 if step == "leave first" else -1)[0].close()
        users = [version for _, version in running]
        assert [version.closed for version in versions] == [
            int(version is not current and version not in users) for version in versions
        ]
        assert slot.requests == len(running)
        assert slot.leaving == len(set(users) - {current})


def test_threads_never_lease_a_closed_version() -> None:
    slot = served(Version())
    stop = threading.Event()
    wrong: list[str] = []

    def request() -> None:
        while not stop.is_set():
            with slot.lease() as version:
                if version.closed:
                    wrong.append("closed at the start")
                if version.closed:
                    wrong.append("closed before the end")

    threads = [threading.Thread(target=request) for _ in range(4)]
    for thread in threads:
        thread.start()
    replaced = [Version() for _ in range(500)]
    for version in replaced:
        slot.swap(version)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [version.closed for version in replaced] == [1] * 499 + [0]


def test_a_request_that_fails_gives_its_lease_back() -> None:
    version = Version()
    slot = served(version)
    with pytest.raises(KeyError), slot.lease():
        raise KeyError
    slot.close()
    assert version.closed == 1


def test_after_closing_there_is_nothing_to_lease() -> None:
    slot = served(Version())
    slot.close()
    slot.close()
    with pytest.raises(UnavailableError, match="stopping"), slot.lease():
        pass
    assert slot.since is None


def test_the_reason_of_a_refusal_is_what_requests_get() -> None:
    slot = served(Version())
    reason = IntegrityError("the catalog is damaged", suggestion="publish again")
    slot.refuse(reason)
    with pytest.raises(IntegrityError) as caught, slot.lease():
        pass
    assert caught.value is reason
    replacement = Version()
    slot.swap(replacement)
    with slot.lease() as version:
        assert version is replacement


def test_the_ids_of_the_version_before_are_known_after_a_swap() -> None:
    slot = served(Version())
    assert slot.version_before(5) == ""
    slot.swap(Version())  # pyright: ignore[reportArgumentType]
    assert [slot.version_before(one) for one in (1, 2, 5, 9, 10)] == ["", "one", "one", "one", ""]


def test_a_replaced_version_goes_without_the_collector(lexical_root: Path) -> None:
    """Which leaves alone what was there when the service started; see `http.serve_http`."""
    engine = Engine(Bundle.open_current(lexical_root), ServingSettings())
    engine.search(SearchRequest(query="open"))
    held = (engine.bundle, engine.bundle.catalog, engine.bundle.directory, *engine.bundle.channels.values())
    parts = [weakref.ref(part) for part in held]
    del held
    gc.disable()
    try:
        engine.served.swap(Bundle.open_current(lexical_root))
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()
        engine.close()
