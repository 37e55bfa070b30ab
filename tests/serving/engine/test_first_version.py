"""Sentences of a server while its first version is made."""

from __future__ import annotations

from codequarry.schemas.errors import StartingError
from codequarry.serving.engine.first_version import FirstVersion, Step


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_sentence_tells_step_count_time_and_what_is_left() -> None:
    clock = Clock()
    first = FirstVersion("app", clock)
    clock.now += 2
    first.note(Step("reading files", 0, 400, "file", 0.0))
    assert first.sentence() == "app is being indexed for the first time: reading files, 0 of 400 files, 2 s so far"
    clock.now += 10
    first.note(Step("cutting files into chunks", 100, 400, "file", 0.25))
    assert first.sentence().endswith("cutting files into chunks, 100 of 400 files, 12 s so far, about 30 s more")
    error = first.error()
    assert isinstance(error, StartingError)
    assert error.retryable
    assert (error.message, error.code) == (first.sentence(), "UNAVAILABLE")
    assert "call again in 30 s" in error.suggestion
    clock.now += 20
    assert first.sentence().endswith("32 s so far, about 10 s more")
    clock.now += 20  # it takes longer than was thought, and nothing is known any more
    assert first.sentence().endswith("52 s so far")


def test_nothing_is_estimated_from_little_work() -> None:
    clock = Clock()
    first = FirstVersion("app", clock)
    first.note(Step("reading files", share=0.05))
    clock.now += 60
    assert "more" not in first.sentence()
    hurried = FirstVersion("app", clock)
    clock.now += 0.5
    hurried.note(Step("writing the index", share=0.5))
    assert "more" not in hurried.sentence()


def test_a_published_version_is_being_opened() -> None:
    clock = Clock()
    first = FirstVersion("app", clock)
    clock.now += 7
    first.publish()
    clock.now += 90
    assert first.sentence() == "app was indexed in 7 s, and is being opened"
    assert first.error().retryable


def test_a_failure_is_told_with_its_remedy_and_no_retry() -> None:
    first = FirstVersion("app")
    first.fail("no file can be indexed", "check .gitignore")
    assert first.has_failed
    error = first.error()
    assert (error.message, error.suggestion) == (
        "the first index of app failed: no file can be indexed", "check .gitignore",
    )  # fmt: skip
    assert not error.retryable
    assert first.sentence() == "the first index of app failed: no file can be indexed; check .gitignore"
