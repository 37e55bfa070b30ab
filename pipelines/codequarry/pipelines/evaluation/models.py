"""Configured models: their place, their state, and their measured quality."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from codequarry.pipelines.embed.encoders import encoder_folders
from codequarry.pipelines.embed.token_encoders import token_encoder_folder
from codequarry.pipelines.measure.ladder import HYBRID, RERANKED
from codequarry.schemas.bundle.layout import BundleRoot, leg_suffix
from codequarry.schemas.bundle.manifest import EncoderEntry, Manifest
from codequarry.schemas.errors import CodequarryError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.files.integrity import current_manifest

_METRIC = "ndcg_10"
_REMEDY = (
    "copy the model's folder here and name its path by [embedding] model, or run the model behind a server and set "
    "[embedding] endpoint"
)


@dataclass(frozen=True, slots=True)
class ModelState:
    """One model of the settings."""

    use: str
    """The channel it is for, or ``rerank``."""
    name: str
    kind: str
    """static, onnx, endpoint, tokens or transformers."""
    state: str
    """State of the model, and the remedy when it is not here."""
    dim: int = 0
    max_tokens: int = 0
    license: str = ""
    query_prefix: str = ""
    agreement: str = ""
    """Agreement of an export's vectors with its model's."""
    served: str = ""
    """True when the current version holds its vectors."""
    bytes: int = 0
    """Of the encoder, vectors and index in the current version."""
    ndcg_10: float | None = None
    """Of its channel asked alone; of a reranker, what it adds to hybrid. By the last evaluation."""
    p50_ms: float | None = None


def model_states(settings: Settings, evaluation: Path) -> list[ModelState]:
    """Return every model that the settings name. No server and no hub is asked.

    Args:
        settings: The settings.
        evaluation: Folder of a report by ``codequarry evaluate``; it may be absent.

    Returns:
        The models, encoders first.

    Raises:
        IntegrityError: CURRENT cannot be read.
    """
    manifest = current_manifest(BundleRoot(settings.bundle.root))
    summary = _summary(evaluation)
    folders: dict[str, Path] = dict(encoder_folders(settings))
    if settings.warp.enabled:
        folders["warp"] = token_encoder_folder(settings)
    found = [_encoder(channel, folder, settings, manifest, summary) for channel, folder in folders.items()]
    serving = settings.serving
    if serving.reranker_model:
        kind, state = "endpoint", "asked when needed"
        if not serving.reranker_endpoint:
            kind, state = "transformers", f"for codequarry evaluate; {_here(serving.reranker_model)}"
        found.append(
            ModelState(
                "rerank", serving.reranker_model, kind, state, ndcg_10=_gain(summary),
                p50_ms=_p50(summary, RERANKED),
            )
        )  # fmt: skip
    return found


def fetch_model(settings: Settings, model: str, revision: str) -> Path:
    """Download a model from the hub that its library is set up for.

    Args:
        settings: Settings that say whether the model's own code is trusted.
        model: Id on the hub.
        revision: Commit, branch or tag; "" for the default.

    Returns:
        Folder of its files.

    Raises:
        MissingExtraError: The extra ``transformers`` is not installed.
        UnavailableError: No hub answers, or it has no such model.
    """
    try:
        from huggingface_hub import snapshot_download  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry models fetch", "transformers", missing=error.name) from None
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    wanted = ["*.safetensors", "*.json", "*.txt", "*.model", "*.md"]
    wanted += ["*.py"] if settings.embedding.trust_remote_code else []
    try:
        return Path(snapshot_download(model, revision=revision or None, allow_patterns=wanted))
    except Exception as error:  # the hub's client, requests and httpx each raise their own
        raise UnavailableError(
            f"{model} cannot be fetched: no hub answers here, or it has no such model ({type(error).__name__})",
            suggestion=_REMEDY,
        ) from error


def _encoder(
    channel: str, folder: Path, settings: Settings, manifest: Manifest | None, summary: Mapping[str, Any]
) -> ModelState:
    served, size = _served(channel, manifest)
    ndcg_10, p50_ms = _ndcg(summary, channel), _p50(summary, channel)
    try:
        spec = EncoderSpec.load(folder)
        spec.verify(folder)
    except CodequarryError:
        dense = {"faiss": settings.embedding, "faiss2": settings.second_encoder}.get(channel)
        name = settings.warp.model if dense is None else dense.model
        name = "MiniLM" if name in ("", "minilm") else name
        kind = "tokens" if dense is None else "endpoint" if dense.endpoint else "onnx"
        prefix = "" if dense is None else dense.prefixes.query
        return ModelState(
            channel, name, kind, _absent(dense), query_prefix=prefix,
            served=_same(served, None), bytes=size, ndcg_10=ndcg_10, p50_ms=p50_ms,
        )  # fmt: skip
    agreement = spec.agreement
    return ModelState(
        channel,
        spec.name,
        spec.kind,
        "set up; its server is asked when needed" if spec.kind == "endpoint" else "here",
        spec.dim,
        spec.max_tokens,
        spec.license,
        spec.query_prefix,
        f"{agreement.weights}, cosine {agreement.mean:.4f}" if agreement else "",
        _same(served, spec),
        size,
        ndcg_10=ndcg_10,
        p50_ms=p50_ms,
    )


def _absent(encoder: EncoderSettings | None) -> str:
    if encoder is not None and encoder.endpoint:
        return "set up by the next codequarry index, which asks its server"
    if encoder is not None and encoder.by_transformers:
        return f"exported by the next codequarry index; {_here(encoder.model)}"
    needs = "" if find_spec("onnx") else "; needs the extra models"
    return f"exported by the next codequarry index{needs}"


def _here(model: str) -> str:
    """Describe where a model of a hub is, as far as can be told without asking one."""
    if Path(model).is_dir():
        return "its folder is here"
    if find_spec("huggingface_hub") is None:
        return "needs the extra transformers"
    from huggingface_hub import try_to_load_from_cache  # pyright: ignore[reportMissingImports]

    cached = isinstance(try_to_load_from_cache(model, "config.json"), str)
    return "fetched" if cached else "to be fetched: codequarry models fetch"


def _served(channel: str, manifest: Manifest | None) -> tuple[EncoderEntry | None, int]:
    """Return the encoder of a channel in the current version, and the channel's bytes."""
    if manifest is None:
        return None, 0
    entries = {leg.channel: leg.encoder for leg in manifest.legs}
    if manifest.warp is not None:
        entries["warp"] = manifest.warp.encoder
    if channel not in entries:
        return None, 0
    suffix = leg_suffix(channel)
    stems = ("warp/",) if channel == "warp" else (
        f"encoder{suffix}/", f"faiss{suffix}.index", f"faiss{suffix}.vectors", f"tables/embeddings{suffix}.",
    )  # fmt: skip
    numbered = f"faiss{suffix}."
    size = sum(
        entry.size_bytes
        for entry in manifest.files
        if entry.path.startswith(stems) or (entry.path.startswith(numbered) and entry.path.endswith(".index"))
    )
    return entries[channel], size


def _same(served: EncoderEntry | None, spec: EncoderSpec | None) -> str:
    if served is None:
        return "no"
    if spec is not None and served.fingerprint == spec.fingerprint:
        return "yes"
    return f"no: {served.name}, until the next codequarry index"


def _summary(folder: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _ndcg(summary: Mapping[str, Any], run: str) -> float | None:
    try:
        return float(summary["runs"][run]["figures"]["all"][_METRIC]["mean"])
    except (KeyError, TypeError, ValueError):
        return None


def _p50(summary: Mapping[str, Any], run: str) -> float | None:
    try:
        return float(summary["runs"][run]["latency_ms"]["p50"])
    except (KeyError, TypeError, ValueError):
        return None


def _gain(summary: Mapping[str, Any]) -> float | None:
    own, other = _ndcg(summary, RERANKED), _ndcg(summary, HYBRID)
    return None if own is None or other is None else own - other
