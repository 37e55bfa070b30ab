"""Older manifests open, newer ones are refused, and a manifest that was changed shows it by itself."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from codequarry.schemas.compatibility import compatibility, differences
from codequarry.schemas.errors import CodequarryError, FormatError, IntegrityError
from codequarry.schemas.manifest import (
    FORMAT_VERSION,
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    LegEntry,
    Manifest,
    ModelEntry,
    SourceEntry,
    from_json,
    to_json,
)

# Written by the program before format 2.
FORMAT_1 = """{
 "counts": {
  "chunks": 1,
  "files": 1,
  "skipped_files": 0
 },
 "created": "2026-01-01T00:00:00Z",
 "digest": "0",
 "encoder": {
  "dim": 3,
  "fingerprint": "f",
  "name": "m"
 },
 "faiss": {
  "exact": true,
  "factory": "Flat",
  "metric": "inner_product"
 },
 "files": [],
 "format_version": 1,
 "settings_sha256": "0",
 "sources": [],
 "tools": {},
 "version": "20260101T000000Z-0123abcd"
}
"""


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        version="20260101T000000Z-0123abcd", created="2026-01-01T00:00:00Z", digest="0" * 64, settings_sha256="1" * 64,
        tools={"duckdb": "2.0.0"}, encoder=EncoderEntry(name="m", fingerprint="f" * 64, dim=384),
        sources=(
            SourceEntry(name="größe", commit="a", dirty=False, tree_sha256="2" * 64, files=3, chunks=7, skipped={}),
        ),
        faiss=FaissEntry(factory="Flat", exact=True), counts=Counts(files=3, skipped_files=0, chunks=7),
        compatibility=compatibility("f" * 64),
        files=(FileEntry(path="faiss.index", size_bytes=12, sha256="3" * 64),),
    )  # fmt: skip


def test_a_manifest_of_format_1_opens_and_is_written_back_as_it_was() -> None:
    old = from_json(FORMAT_1.encode())
    assert (old.format_version, old.compatibility, old.counts.chunks) == (1, None, 1)
    assert to_json(old) == FORMAT_1.encode()
    assert differences(old) == ["format 1, which does not say"]


def test_a_manifest_of_format_4_names_no_models_and_is_written_back_as_it_was(manifest: Manifest) -> None:
    model = ModelEntry(
        kind="static", model="", revision="", license="MIT", max_tokens=0, query_prefix="", document_prefix="",
        weights_sha256="0" * 64, tokenizer_sha256="0" * 64,
    )  # fmt: skip
    own = manifest.model_copy(update={"encoder": manifest.encoder.model_copy(update={"model": model})})
    assert from_json(to_json(own)).encoder.model == model
    legs = (LegEntry(channel="faiss2", encoder=own.encoder, faiss=own.faiss),)
    data = to_json(own.model_copy(update={"format_version": 4, "more_legs": legs}))
    assert b'"model"' not in data
    old = from_json(data)
    assert (old.encoder.model, old.more_legs[0].encoder.model) == (None, None)
    assert to_json(old) == data


@pytest.mark.parametrize("found", [FORMAT_VERSION + 1, 99])
def test_a_newer_format_is_refused_whatever_else_it_holds(found: int) -> None:
    with pytest.raises(FormatError, match=f"format {found}.*upgrade codequarry"):
        from_json(json.dumps({"format_version": found, "shards": []}).encode())


@pytest.mark.parametrize("found", ["2", 2.0, True, None, 0, -1, []])
def test_a_format_version_that_is_no_number_is_no_manifest(found: object) -> None:
    with pytest.raises(IntegrityError, match="names no format version"):
        from_json(json.dumps({"format_version": found}).encode())


def test_every_changed_byte_of_a_manifest_shows_without_any_other_file(manifest: Manifest) -> None:
    data, dice = to_json(manifest), random.Random(0)
    for place, byte in enumerate(data):
        for value in {byte ^ (1 << dice.randrange(8)), dice.randrange(256), ord("1")} - {byte}:
            with pytest.raises(CodequarryError):
                from_json(data[:place] + bytes([value]) + data[place + 1 :])
    for cut in range(0, len(data), 7):
        with pytest.raises(CodequarryError):
            from_json(data[:cut])
    with pytest.raises(CodequarryError):
        from_json(data + b"\n")


def test_a_forged_value_does_not_fit_the_checksum(manifest: Manifest) -> None:
    raw: dict[str, Any] = json.loads(to_json(manifest))
    raw["counts"]["chunks"] = 8
    with pytest.raises(IntegrityError, match="checksum does not fit"):
        from_json((json.dumps(raw, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())


@pytest.mark.parametrize("path", ["../../CURRENT", "/etc/passwd", "manifest.json", "faiss.index", "faiss.index/x"])
def test_a_path_that_is_no_place_of_its_own_in_the_version_is_refused(manifest: Manifest, path: str) -> None:
    entry = FileEntry(path=path, size_bytes=1, sha256="0" * 64)
    forged = Manifest.model_construct(**{**dict(manifest), "files": (*manifest.files, entry)})
    with pytest.raises(IntegrityError, match="does not follow the format"):
        from_json(to_json(forged))


def test_the_compatibility_hash_follows_each_of_its_parts(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(manifest) == []
    assert compatibility("e" * 64).sha256 != compatibility("f" * 64).sha256
    monkeypatch.setattr("codequarry.schemas.lexical.indexed_terms", lambda text: [(text, 0)])
    assert differences(manifest) == ["the text analyzer"]
    monkeypatch.setattr("codequarry.schemas.compatibility.SCHEMAS", {})
    assert differences(manifest) == ["the text analyzer", "the tables"]
