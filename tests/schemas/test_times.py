"""Times of others: any year, and none, are read or named."""

from __future__ import annotations

import pytest

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.times import age_s, build_time, parse_time


@pytest.mark.parametrize("text", ["2300-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_any_year_has_an_age(text: str) -> None:
    assert (age_s(text) > 0) == (parse_time(text).year == 1)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time("2026-01-01T00:00:00") == parse_time("2026-01-01T00:00:00Z")


@pytest.mark.parametrize("text", ["", "292277026596-12-04T15:30:08Z", "yesterday", "\x1b[31m" * 1000])
def test_what_is_no_time_is_named_in_few_characters(text: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        age_s(text)
    assert len(caught.value.message) < 200
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    ("version", "year"), [("22630101T000000Z-0123abcd", 2263), ("99991231T235959Z-0123abcd", 9999),
                          ("00000000T000000Z-0123abcd", None), ("20261399T999999Z-0123abcd", None)]
)  # fmt: skip
def test_a_version_is_of_a_year_or_of_none(version: str, year: int | None) -> None:
    found = build_time(version)
    assert (None if found is None else found.year) == year
