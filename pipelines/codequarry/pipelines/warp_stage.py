"""Late interaction in a run: codes of a repository's tokens, and the index of a staged version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from codequarry.pipelines.encoders import token_encoder_directory
from codequarry.pipelines.parts import Part, hashed, plan_parts
from codequarry.pipelines.ranking_profile import read_late
from codequarry.pipelines.shards import Shard
from codequarry.pipelines.text_indexes import encode_parts, link_index, put_encoder, stored, texts_of
from codequarry.pipelines.tools import tool_versions
from codequarry.pipelines.version_manifest import encoder_entry
from codequarry.pipelines.warp_build import WarpPlan, build_index
from codequarry.pipelines.warp_tokens import (
    TokenEncoding,
    encode_missing,
    open_token_store,
)
from codequarry.pipelines.workspace import Progress, repository_work, silent
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import Manifest, WarpEntry
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.settings import Settings
from codequarry.schemas.token_encoder import SCALES_FILE

TOKENS = "tokens"
"""Seal of a part whose chunks' tokens are in the store."""
_BATCH = 256


@dataclass(frozen=True, slots=True)
class TokenReport:
    """What the token stage did for a repository."""

    name: str
    chunks: int
    encoded: int
    """Distinct texts that went through the encoder."""
    fingerprint: str


def embed_tokens(name: str, settings: Settings, progress: Progress = silent) -> TokenReport:
    """Put the codes of all tokens of a repository into the store; parts that were done are passed over.

    Raises SourceError: the chunk stage has not run. MissingExtraError: the encoder needs an extra.
    """
    work = repository_work(settings.paths.work, name)
    encoding = token_encoding(settings)
    encode = partial(
        encode_missing, store=settings.paths.store, encoding=encoding, progress=progress, what=f"{name}: tokens"
    )
    parts = plan_parts(work, settings)
    chunks, encoded = encode_parts(parts, TOKENS, partial(_tokens_key, encoding=encoding), encode)
    return TokenReport(name, chunks, encoded, encoding.fingerprint)


def token_encoding(settings: Settings) -> TokenEncoding:
    """The token encoder of the settings; raises as `token_encoder_directory`."""
    folder = token_encoder_directory(settings)
    spec = EncoderSpec.load(folder)
    return TokenEncoding(
        folder, spec.fingerprint, spec.dim, settings.warp.punctuation, settings.embedding.threads, settings.warp.device
    )


def put_warp(
    paths: BundlePaths,
    plan: Sequence[Shard],
    settings: Settings,
    root: BundleRoot,
    held: Manifest | None,
    progress: Progress = silent,
) -> tuple[WarpEntry, frozenset[str]]:
    """The index of a staged version, linked to CURRENT where that has the same.

    paths: of a version whose tables are written. plan: all its shards.

    Returns its entry, and the paths that are links.
    """
    encoding = token_encoding(settings)
    key = hashed(
        [tool_versions(), settings.warp.model_dump(mode="json"), encoding.fingerprint, [shard.key for shard in plan]]
    )
    verdict = read_late(settings)
    measured = verdict.said if verdict is not None else ""
    folder = paths.warp
    (folder / ENCODER_FOLDER).mkdir(parents=True)
    if held is not None and held.warp is not None and held.warp.key == key:
        links = link_index(folder, paths, root, held)
        if links is not None:
            return held.warp.model_copy(update={"measured": measured}), links
    spec = EncoderSpec.load(encoding.folder)
    linked = put_encoder(encoding.folder, folder, paths, root, held)
    encode = partial(encode_missing, store=settings.paths.store, encoding=encoding, progress=progress)
    ids, keys = texts_of(paths, plan, partial(encode, what="warp: tokens"))
    scales = np.load(encoding.folder / SCALES_FILE, allow_pickle=False)
    asked = WarpPlan(
        scales,
        spec.fingerprint,
        punctuation=settings.warp.punctuation,
        profile=settings.warp.profile,
        bits=settings.warp.bits,
        memory_mb=settings.warp.memory_mb,
    )
    with open_token_store(settings.paths.store, encoding) as codes:
        index = build_index(folder, stored(ids, keys, codes, "token codes"), asked, progress)
    entry = WarpEntry(
        key=key,
        profile=index.profile,
        bits=index.bits,
        punctuation=index.punctuation,
        documents=index.documents,
        tokens=index.tokens,
        centroids=index.centroids,
        encoder=encoder_entry(spec),
        measured=measured,
    )
    return entry, linked


def _tokens_key(part: Part, encoding: TokenEncoding) -> str:
    return hashed(
        [part.chunked()["files"]["chunks.parquet"], encoding.fingerprint, encoding.punctuation, encoding.device]
    )
