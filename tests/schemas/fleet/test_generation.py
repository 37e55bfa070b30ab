"""A generation comes from anywhere: what it says is checked before anything believes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle.checksummed_json import dump_with_checksum
from codequarry.schemas.errors import FormatError, IntegrityError, InvalidArgumentError, NoBundleError
from codequarry.schemas.fleet.generation import (
    BundleEntry,
    FailedAttempt,
    FleetCurrent,
    FleetManifest,
    OriginEntry,
    RepositoryEntry,
    bundle_name,
    generation_from_json,
    generation_to_json,
)
from codequarry.schemas.fleet.replica import HeldGeneration, ReplicaRoot
from codequarry.schemas.fleet.shares import Share

TIME = "2026-11-21T12:00:00Z"


def bundle(*names: str, encoder: str = "e" * 64) -> BundleEntry:
    entry = RepositoryEntry(commit="c" * 40, dirty=False, tree_sha256="d" * 64, chunks=3, indexed=TIME)
    return BundleEntry(
        version="20261121T120000Z-0123abcd", manifest_sha256="a" * 64, digest="b" * 64, encoders=(encoder,),
        settings_sha256="f" * 64, chunks=3 * len(names), size_bytes=9, repositories=dict.fromkeys(names, entry),
    )  # fmt: skip


def fleet(**more: Any) -> FleetManifest:
    given: dict[str, Any] = {
        "generation": 2, "created": TIME, "origin": OriginEntry(act="build", parent=1), "next_bundle": 3,
        "bundles": {"b0001": bundle("ant", "bee"), "b0002": bundle("cat")},
        "left_out": {"dog": FailedAttempt(since=TIME, error="it does not answer")},
    }  # fmt: skip
    return FleetManifest(**{**given, **more})


def forged(*place: str | int, value: Any) -> bytes:
    """The file of a generation with one other value, and a checksum that fits."""
    raw = fleet().model_dump(mode="json")
    inner: Any = raw
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return dump_with_checksum(raw, before="created")


def test_a_generation_is_what_was_written() -> None:
    assert generation_from_json(generation_to_json(fleet())) == fleet()
    assert generation_to_json(generation_from_json(generation_to_json(fleet()))) == generation_to_json(fleet())


@given(st.integers(0), st.integers(0, 255))
def test_any_changed_byte_is_refused(place: int, byte: int) -> None:
    raw = bytearray(generation_to_json(fleet()))
    place %= len(raw)
    if raw[place] == byte:
        return
    raw[place] = byte
    with pytest.raises((IntegrityError, FormatError)):
        generation_from_json(bytes(raw))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_sentence(raw: bytes) -> None:
    with pytest.raises(IntegrityError) as caught:
        generation_from_json(raw)
    assert caught.value.suggestion


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("generation",), 0, "at generation"),
        (("generation",), "2", "at generation"),
        (("created",), "yesterday", "at created"),
        (("next_bundle",), 2, "b0002 has a number that is not given yet"),
        (("unknown",), 1, "at unknown"),
        (("bundles", "../b"), bundle("x").model_dump(mode="json"), "at bundles"),
        (("bundles", "b0002"), bundle("ant").model_dump(mode="json"), "ant lies in 2 bundles"),
        (("bundles", "b0002"), bundle("x", encoder="9" * 64).model_dump(mode="json"), "different encoders"),
        (("bundles", "b0002", "chunks"), 4, "has 4 chunks, and its repositories 3"),
        (("bundles", "b0002", "version"), "../../etc", "at bundles.b0002.version"),
        (("bundles", "b0002", "manifest_sha256"), "A" * 64, "at bundles.b0002.manifest_sha256"),
        (("bundles", "b0002", "encoders"), [], "at bundles.b0002.encoders"),
        (("bundles", "b0002", "repositories"), {}, "at bundles.b0002.repositories"),
        (("bundles", "b0002", "repositories", "-rf"), {}, "at bundles.b0002.repositories"),
        (("bundles", "b0002", "repositories", "cat", "commit"), "main", "commit"),
        (("bundles", "b0002", "size_bytes"), 1 << 60, "size_bytes"),
        (("left_out", "cat"), {"since": TIME, "error": "x"}, "cat lies in a bundle and is left out"),
        (("statistics",), {"sha256": "x", "size_bytes": 1}, "at statistics"),
        (("origin", "act"), "theft", "at origin.act"),
    ],
)
def test_a_forged_generation_is_refused(place: tuple[str | int, ...], value: Any, sentence: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        generation_from_json(forged(*place, value=value))
    assert sentence in caught.value.message


def test_another_format_is_named() -> None:
    with pytest.raises(FormatError, match="has format 2"):
        generation_from_json(forged("format_version", value=2))


def test_what_people_read_is_one_visible_line() -> None:
    found = generation_from_json(forged("left_out", "dog", "error", value="a\x1b[2J\nb"))
    assert found.left_out["dog"].error == "a[2J b"


@given(st.binary(max_size=90))
def test_the_pointer_is_one_line_or_nothing(raw: bytes) -> None:
    assert FleetCurrent.parse(raw) is None
    line = FleetCurrent(12, "a" * 64).line()
    assert FleetCurrent.parse(line) == FleetCurrent(12, "a" * 64)
    assert FleetCurrent.parse(line + raw) == (FleetCurrent(12, "a" * 64) if not raw else None)


@given(st.sets(st.integers(1, 500)), st.integers(1, 12))
def test_shares_divide_the_bundles_and_are_stable(numbers: set[int], of: int) -> None:
    names = {bundle_name(number) for number in numbers}
    shares = [Share(number, of).select(names) for number in range(1, of + 1)]
    assert sorted(name for share in shares for name in share) == sorted(names)
    for removed in list(names)[:2]:
        for number, share in enumerate(shares, 1):
            assert Share(number, of).select(names - {removed}) == [name for name in share if name != removed]
    even = [
        Share(number, of).select({bundle_name(each) for each in range(1, 10 * of + 1)}) for number in range(1, of + 1)
    ]
    assert {len(share) for share in even} == {10}


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "1", "1/0", "a/b", "1/2 ", "-1/2"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no share of a fleet"):
        Share.parse(text)


def test_a_replica_says_what_it_holds(tmp_path: Any) -> None:
    root = ReplicaRoot(tmp_path)
    with pytest.raises(NoBundleError, match="no generation of a fleet is held"):
        root.read()
    held = HeldGeneration(url="s3://x", sha256="a" * 64, share="2/2", pulled=TIME, fleet=fleet())
    root.file.write_text(held.model_dump_json())
    assert root.read() == held
    assert list(root.read().own_bundles) == ["b0002"]
    raw = json.loads(held.model_dump_json())
    for place, value in (("share", "3/2"), ("format_version", 7), ("sha256", "x"), ("fleet", {})):
        root.file.write_text(json.dumps({**raw, place: value}))
        with pytest.raises(IntegrityError):
            root.read()
    root.file.unlink()
    root.file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError):
        root.read()
