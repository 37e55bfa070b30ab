"""The order of versions: by number, and by the time in the name where there is none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import MAX_SEQUENCE, to_json
from codequarry.schemas.errors import ResourcesError
from codequarry.serving.files import integrity
from codequarry.serving.files.integrity import read_manifest
from codequarry.serving.files.version_order import next_sequence, ordered_versions, sequence_of, versions_before
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

LATE, EARLY, MIDDLE = "20990101T000000Z-0000000a", "20150101T000000Z-0000000b", "20260101T000000Z-0000000c"


@pytest.fixture
def root(tmp_path: Path) -> BundleRoot:
    for version in (LATE, EARLY, MIDDLE):
        write_bundle(tmp_path, PIECES[:3], version=version)
    return BundleRoot(tmp_path)


def number(root: BundleRoot, version: str, sequence: int) -> None:
    paths = root.version(version)
    paths.manifest.write_bytes(to_json(read_manifest(paths).model_copy(update={"sequence": sequence})))


def test_without_numbers_names_decide(root: BundleRoot) -> None:
    assert ordered_versions(root) == [EARLY, MIDDLE, LATE]
    assert versions_before(root, MIDDLE) == [EARLY]


def test_numbers_decide_before_names(root: BundleRoot) -> None:
    for at, version in enumerate((LATE, EARLY, MIDDLE), start=1):
        number(root, version, at)
    assert ordered_versions(root) == [LATE, EARLY, MIDDLE]
    assert versions_before(root, MIDDLE) == [LATE, EARLY]
    assert versions_before(root, LATE) == []


def test_a_number_is_above_all_others_and_no_less_than_the_second_of_the_build(root: BundleRoot) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert next_sequence(root, now) == sequence_of(root, LATE) + 1
    (root.versions / LATE).rename(root.path / "elsewhere")
    assert next_sequence(root, now) == int(now.timestamp())


def test_versions_with_and_without_numbers_stand_by_the_second_of_their_build(root: BundleRoot) -> None:
    number(root, MIDDLE, int(datetime(2010, 1, 1, tzinfo=UTC).timestamp()))
    assert ordered_versions(root) == [MIDDLE, EARLY, LATE]


def test_a_number_at_the_limit_stops_no_build(root: BundleRoot) -> None:
    number(root, EARLY, MAX_SEQUENCE)
    assert next_sequence(root, datetime(2026, 6, 1, tzinfo=UTC)) == MAX_SEQUENCE
    assert ordered_versions(root)[-1] == EARLY


def test_a_damaged_or_missing_version_keeps_the_place_of_its_name(root: BundleRoot) -> None:
    root.version(MIDDLE).manifest.write_bytes(b"{}")
    assert ordered_versions(root) == [EARLY, MIDDLE, LATE]
    assert versions_before(root, "20200101T000000Z-0000000d") == [EARLY]


def test_nobody_knows_the_order_without_descriptors(root: BundleRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> bytes:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(integrity.Path, "read_bytes", refuse)
    with pytest.raises(ResourcesError):
        ordered_versions(root)
