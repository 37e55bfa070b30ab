"""Compatibility hash: what a bundle and its reader must have in common."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# Arrow ships no type stubs.

from __future__ import annotations

import hashlib
import json

from codequarry.schemas.bundle.manifest import FORMAT_VERSION, CompatibilityEntry, Manifest
from codequarry.schemas.bundle.tables import FAISS_IDMAP, SCHEMAS, schema_hash
from codequarry.schemas.catalog.views import SECOND_VIEWS, TABLES, VIEWS
from codequarry.serving.text.lexical import lexical_fingerprint


def compatibility(*encoder_fingerprints: str) -> CompatibilityEntry:
    """Return the compatibility entry of this program, for vectors of these encoders, one for each dense index."""
    analyzer, tables = lexical_fingerprint(), _tables(len(encoder_fingerprints))
    return CompatibilityEntry(
        analyzer=analyzer, tables=tables, sha256=_hashed([FORMAT_VERSION, *encoder_fingerprints, analyzer, tables])
    )


def differences(manifest: Manifest) -> list[str]:
    """List the differences between this program and the one that built the version; empty when all agree."""
    built, ours = manifest.compatibility, compatibility(*(leg.encoder.fingerprint for leg in manifest.legs))
    found = ["the text analyzer"] if built.analyzer != ours.analyzer else []
    found += ["the tables"] if built.tables != ours.tables else []
    return found or ([] if built.sha256 == ours.sha256 else ["the hash over all"])


def _tables(legs: int) -> str:
    columns = {name: schema_hash(schema) for name, schema in {**SCHEMAS, "faiss_idmap": FAISS_IDMAP}.items()}
    return _hashed([columns, VIEWS, *([SECOND_VIEWS] if legs > 1 else []), TABLES])


def _hashed(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
