"""The manifest: round trips, what the digest depends on, and refusals."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.schemas.bundle.manifest import (
    FORMAT_VERSION,
    CompatibilityEntry,
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    LegEntry,
    Manifest,
    SourceEntry,
    content_digest,
    from_json,
    to_json,
)
from codequarry.schemas.bundle.manifest_fields import MAX_COUNT, MAX_SIZE
from codequarry.schemas.errors import FormatError, IntegrityError

sha256s = st.text("0123456789abcdef", min_size=64, max_size=64)
names = st.text("abcdefghij/._-", min_size=1, max_size=20)
paths = st.lists(st.text("abcdefghij._-ü", min_size=3, max_size=20), min_size=1, max_size=5).map("/".join)
files = st.builds(
    FileEntry, path=paths, size_bytes=st.integers(0, MAX_SIZE), sha256=sha256s,
    content_sha256=st.none() | sha256s, rows=st.none() | st.integers(0, 1 << 40), schema_sha256=st.none() | sha256s,
)  # fmt: skip
repositories = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2261, 1, 1)).map(lambda one: one.replace(microsecond=0))
counts = st.integers(0, MAX_COUNT)
sources = st.builds(
    SourceEntry, name=repositories, commit=st.text("0123456789abcdef", max_size=40), dirty=st.booleans(),
    tree_sha256=sha256s, files=st.integers(0, 1 << 30), chunks=st.integers(0, 1 << 30),
    skipped=st.dictionaries(names, st.integers(1, 99)),
)  # fmt: skip
manifests = st.builds(
    Manifest, version=moments.map(lambda one: f"{one:%Y%m%dT%H%M%SZ}-0123abcd"),
    created=moments.map(lambda one: f"{one.isoformat()}Z"), digest=sha256s, settings_sha256=sha256s,
    tools=st.dictionaries(names, st.text(max_size=10)),
    sources=st.lists(sources, max_size=3, unique_by=lambda source: source.name).map(tuple),
    encoder=st.builds(EncoderEntry, name=names, fingerprint=sha256s, dim=st.integers(1, 4096)),
    faiss=st.builds(FaissEntry, factory=names, exact=st.booleans()),
    more_legs=st.lists(
        st.builds(
            LegEntry,
            channel=st.just("faiss2"),
            encoder=st.builds(EncoderEntry, name=names, fingerprint=sha256s, dim=st.integers(1, 4096)),
            faiss=st.builds(FaissEntry, factory=names, exact=st.booleans()),
        ),
        max_size=1,
    ).map(tuple),
    counts=st.builds(Counts, files=counts, skipped_files=counts, chunks=counts),
    compatibility=st.builds(CompatibilityEntry, analyzer=sha256s, tables=sha256s, sha256=sha256s),
    files=st.lists(files, max_size=4, unique_by=lambda entry: entry.path.partition("/")[0]).map(tuple),
)  # fmt: skip


@given(manifests)
def test_round_trip(manifest: Manifest) -> None:
    assert from_json(to_json(manifest)) == manifest


@given(manifests)
def test_the_digest_ignores_order(manifest: Manifest) -> None:
    parts = {"settings_sha256": manifest.settings_sha256, "encoders": [leg.encoder for leg in manifest.legs]}
    forward = content_digest(sources=manifest.sources, files=manifest.files, **parts)
    backward = content_digest(sources=manifest.sources[::-1], files=manifest.files[::-1], **parts)
    assert forward == backward


def test_the_digest_takes_content_over_bytes_where_both_are_given() -> None:
    encoder = EncoderEntry(name="m", fingerprint="f", dim=3)

    def digest(sha256: str, content: str | None) -> str:
        entry = FileEntry(
            path="catalog.duckdb", size_bytes=1, sha256=sha256 * 64, content_sha256=content and content * 64
        )
        return content_digest(sources=(), settings_sha256="", encoders=[encoder], files=(entry,))

    assert digest("a", "c") == digest("b", "c")
    assert digest("a", "c") != digest("a", "d")
    assert digest("a", None) != digest("b", None)


def test_another_format_is_refused_with_the_remedy() -> None:
    with pytest.raises(FormatError, match=f"format {FORMAT_VERSION + 1}, this program reads format {FORMAT_VERSION};"):
        from_json(json.dumps({"format_version": FORMAT_VERSION + 1}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"format_version": %d}' % FORMAT_VERSION,
        b'{"format_version": 4, "x"',
        b"[" * 10**5,
    ],
)
def test_anything_else_is_no_manifest(data: bytes) -> None:
    with pytest.raises(IntegrityError, match=r"manifest\.json"):
        from_json(data)


@pytest.mark.parametrize("checksum", [b"null", b"1", b"[" * 900 + b"]" * 900, b'{"a": "b"}', b'"\\ud800"'])
def test_a_checksum_that_is_none_fits_nothing(checksum: bytes) -> None:
    with pytest.raises(IntegrityError, match="checksum does not fit"):
        from_json(b'{\n "checksum": ' + checksum + b',\n "format_version": %d\n}\n' % FORMAT_VERSION)
