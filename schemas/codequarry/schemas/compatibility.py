"""The compatibility hash: what a bundle and its reader must have in common."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# Arrow ships no type stubs.

from __future__ import annotations

import hashlib
import json

from codequarry.schemas.catalog import SECOND_VIEWS, TABLES, VIEWS
from codequarry.schemas.lexical import lexical_fingerprint
from codequarry.schemas.manifest import FORMAT_VERSION, CompatibilityEntry, Manifest
from codequarry.schemas.tables import FAISS_IDMAP, SCHEMAS, schema_hash


def compatibility(*encoder_fingerprints: str) -> CompatibilityEntry:
    """What this program writes, with vectors of these encoders, leg by leg."""
    analyzer, tables = lexical_fingerprint(), _tables(len(encoder_fingerprints))
    return CompatibilityEntry(
        analyzer=analyzer, tables=tables, sha256=_hashed([FORMAT_VERSION, *encoder_fingerprints, analyzer, tables])
    )


def differences(manifest: Manifest) -> list[str]:
    """What this program does otherwise than the one that built the version; empty when all agree."""
    built, ours = manifest.compatibility, compatibility(*(leg.encoder.fingerprint for leg in manifest.legs))
    if built is None:
        return [f"format {manifest.format_version}, which does not say"]
    found = [f"format {manifest.format_version}"] if manifest.format_version != FORMAT_VERSION else []
    found += ["the text analyzer"] if built.analyzer != ours.analyzer else []
    found += ["the tables"] if built.tables != ours.tables else []
    return found or ([] if built.sha256 == ours.sha256 else ["the hash over all"])


def _tables(legs: int) -> str:
    columns = {name: schema_hash(schema) for name, schema in {**SCHEMAS, "faiss_idmap": FAISS_IDMAP}.items()}
    return _hashed([columns, VIEWS, *([SECOND_VIEWS] if legs > 1 else []), TABLES])


def _hashed(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
