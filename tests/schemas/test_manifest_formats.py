"""Manifests of other formats are refused, and a manifest that was changed shows it by itself."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from codequarry.schemas.bundle.manifest import (
    FORMAT_VERSION,
    AcceptedEntry,
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    Manifest,
    ModelEntry,
    SourceEntry,
    WarpEntry,
    from_json,
    to_json,
)
from codequarry.schemas.errors import CodequarryError, FormatError, IntegrityError
from codequarry.serving.files.compatibility import compatibility, differences


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        version="20260101T000000Z-0123abcd", created="2026-01-01T00:00:00Z", digest="0" * 64, settings_sha256="1" * 64,
        tools={"duckdb": "2.0.0", "größe": "1"}, encoder=EncoderEntry(name="m", fingerprint="f" * 64, dim=384),
        sources=(
            SourceEntry(name="app", commit="a", dirty=False, tree_sha256="2" * 64, files=3, chunks=7, skipped={}),
        ),
        faiss=FaissEntry(factory="Flat", exact=True), counts=Counts(files=3, skipped_files=0, chunks=7),
        compatibility=compatibility("f" * 64),
        files=(FileEntry(path="faiss.index", size_bytes=12, sha256="3" * 64),),
    )  # fmt: skip


def test_accepted_regressions_models_and_measurements_are_kept(manifest: Manifest) -> None:
    entry = AcceptedEntry(check="share of a language", found="1 %", expected="2 %", reason="größer")
    assert from_json(to_json(manifest.model_copy(update={"accepted": (entry,)}))).accepted == (entry,)
    model = ModelEntry(
        kind="static", model="", revision="", license="MIT", max_tokens=0, query_prefix="", document_prefix="",
        weights_sha256="0" * 64, tokenizer_sha256="0" * 64,
    )  # fmt: skip
    own = manifest.model_copy(update={"encoder": manifest.encoder.model_copy(update={"model": model})})
    assert from_json(to_json(own)).encoder.model == model
    warp = WarpEntry(
        key="4" * 64, profile="standard", bits=4, punctuation=False, documents=7, tokens=70, centroids=8,
        encoder=EncoderEntry(name="t", fingerprint="5" * 64, dim=128), measured="on",
    )  # fmt: skip
    assert from_json(to_json(manifest.model_copy(update={"warp": warp}))).warp == warp


@pytest.mark.parametrize("found", [FORMAT_VERSION + 1, 6, 99])
def test_another_format_is_refused_whatever_else_it_holds(found: int) -> None:
    with pytest.raises(FormatError, match=f"format {found}.*build it again with `codequarry index`"):
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
    monkeypatch.setattr("codequarry.serving.text.lexical.indexed_values", lambda text: (text, ""))
    assert differences(manifest) == ["the text analyzer"]
    monkeypatch.setattr("codequarry.serving.files.compatibility.SCHEMAS", {})
    assert differences(manifest) == ["the text analyzer", "the tables"]
