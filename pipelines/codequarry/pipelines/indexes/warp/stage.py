"""Late interaction in a run: codes of a repository's tokens, and the index of a staged version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from codequarry.pipelines.embed.encoders import encoder_entry
from codequarry.pipelines.embed.token_encoders import token_encoder_directory
from codequarry.pipelines.indexes.ranking_profile import read_late
from codequarry.pipelines.indexes.text_indexes import encode_parts, link_index, put_encoder, stored, texts_of
from codequarry.pipelines.indexes.warp.build import WarpPlan, build_index
from codequarry.pipelines.indexes.warp.token_codes import (
    TokenEncoding,
    encode_missing,
    open_token_store,
)
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.parts import Part, Shard, hashed, plan_parts
from codequarry.pipelines.store.workspace import Progress, repository_work, silent
from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest, WarpEntry
from codequarry.schemas.settings.device_setting import device_kind
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.encoders.tokens import SCALES_FILE
from codequarry.serving.files.arrays import read_array

TOKENS = "tokens"
"""Completion marker of a part whose chunks' tokens are in the store."""


@dataclass(frozen=True, slots=True)
class TokenReport:
    """Results of the token stage for a repository."""

    name: str
    chunks: int
    encoded: int
    """Distinct texts that went through the encoder."""
    fingerprint: str


def embed_tokens(name: str, settings: Settings, progress: Progress = silent) -> TokenReport:
    """Put the codes of all tokens of a repository into the store; parts that are done are skipped.

    Args:
        name: Name of the repository.
        settings: Settings of the run.
        progress: Told of the texts encoded.

    Returns:
        Counts of chunks and of encoded texts.

    Raises:
        SourceError: The chunk stage has not run.
        MissingExtraError: The encoder needs an extra.
    """
    work = repository_work(settings.paths.work, name)
    encoding = token_encoding(settings)
    encode = partial(
        encode_missing, store=settings.paths.store, encoding=encoding, progress=progress, what=f"{name}: tokens"
    )
    parts = plan_parts(work, settings)
    chunks, encoded = encode_parts(
        parts, TOKENS, partial(_tokens_key, encoding=encoding), encode, settings, on_gpu=encoding.on_gpu
    )
    return TokenReport(name, chunks, encoded, encoding.fingerprint)


def token_encoding(settings: Settings) -> TokenEncoding:
    """Return the token encoder of the settings.

    Args:
        settings: The settings.

    Returns:
        The encoder and the tokens to encode.

    Raises:
        CodequarryError: As `token_encoder_directory` does.
    """
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
    """Write the index of a staged version, or link it to CURRENT when that has the same.

    Args:
        paths: Paths of a version whose tables are written.
        plan: All its shards.
        settings: Settings of the run.
        root: Bundle root.
        held: Manifest of CURRENT; None when there is none.
        progress: Told of the texts encoded and the tokens indexed.

    Returns:
        The index's entry, and the paths that are links.
    """
    encoding = token_encoding(settings)
    chosen = settings.warp.model_dump(mode="json", exclude={"model", "revision"})  # the fingerprint tells the model
    chosen["device"] = device_kind(settings.warp.device)
    key = hashed([tool_versions(), chosen, encoding.fingerprint, [shard.key for shard in plan]])
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
    scales = read_array(encoding.folder / SCALES_FILE)
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
        [
            part.chunked()["files"]["chunks.parquet"],
            encoding.fingerprint,
            encoding.punctuation,
            device_kind(encoding.device),
        ]
    )
