"""What has to hold of a learned sparse index, beside the version that it is a part of."""

from __future__ import annotations

from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.splade_layout import SpladeSpec, map_arrays, strange_postings


def compare_splade(paths: BundlePaths, manifest: Manifest) -> list[tuple[str, str, str]]:
    """Checks as (name, found, expected), which are to be the same. Its ids are compared with those of all indexes."""
    promised = manifest.splade
    if promised is None:
        found = "present" if paths.splade.exists() else "absent"
        return [("files of learned sparse terms without an entry in the manifest", found, "absent")]
    try:
        spec = SpladeSpec.load(paths.splade)
        arrays = map_arrays(paths.splade, spec)
        encoder = EncoderSpec.load(paths.splade / ENCODER_FOLDER)
    except CodequarryError as error:
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
