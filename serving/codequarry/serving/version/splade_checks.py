"""Checks of a learned sparse index against its version."""

from __future__ import annotations

from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.channels.splade_files import map_arrays, strange_postings
from codequarry.serving.encoders.spec import EncoderSpec


def compare_splade(paths: BundlePaths, manifest: Manifest) -> list[tuple[str, str, str]]:
    """Return checks as (name, found, expected); the last two must be equal.

    Document ids are checked elsewhere, with those of all indexes.
    """
    promised = manifest.splade
    if promised is None:
        found = "present" if paths.splade.exists() else "absent"
        return [("files of learned sparse terms without an entry in the manifest", found, "absent")]
    try:
        spec = SpladeSpec.load(paths.splade)
        arrays = map_arrays(paths.splade, spec)
        encoder = EncoderSpec.load(paths.splade / ENCODER_FOLDER)
    except CodequarryError as error:
        raise_if_exhausted(error, "the learned sparse index cannot be read now")
        return [("learned sparse index", error.message, "a whole index")]
    return [
        ("postings of learned sparse terms that lead nowhere", str(strange_postings(arrays, spec)), "0"),
        (
            "size of the learned sparse index",
            f"{spec.documents} chunks, {spec.postings} postings",
            f"{promised.documents} chunks, {promised.postings} postings",
        ),
        (
            "vocabulary of the sparse encoders",
            f"{spec.vocabulary}, {encoder.dim}",
            f"{promised.encoder.dim}, {promised.encoder.dim}",
        ),
        ("fingerprint of the sparse encoder of chunks", spec.encoder[:12], promised.encoder.fingerprint[:12]),
        (
            "fingerprint of the sparse encoder of queries",
            f"{spec.query_encoder[:12]}, {encoder.fingerprint[:12]}",
            f"{promised.query_encoder[:12]}, {promised.query_encoder[:12]}",
        ),
    ]
