"""The token encoder of the settings: MiniLM's, or a model trained for late interaction, exported on first use."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from codequarry.pipelines.embed.encoders import exported
from codequarry.pipelines.embed.export import (
    bert,
    minilm,
    minilm_tokens,
    model_folder,
    sparse_graph,
    token_export,
    token_model,
)
from codequarry.pipelines.embed.named_model import NamedModel
from codequarry.pipelines.store.parts import hashed
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.settings.device_setting import device_kind
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.files.integrity import file_sha256


def token_encoder_folder(settings: Settings) -> Path:
    """Return the folder of the settings' token encoder, where it is or will be exported.

    Its name depends on the exporter, and on the model's files, or on its name and revision.

    Args:
        settings: Settings of the run.

    Returns:
        Folder in the store.

    Raises:
        InvalidArgumentError: The model is neither a folder nor a name with a revision.
    """
    encoders, tokens = settings.paths.store / "encoders", settings.warp.max_tokens
    precision = "-float16" if _on_gpu(settings) else ""
    if not settings.warp.model:
        exporters = "".join(file_sha256(Path(str(module.__file__)))[:6] for module in (bert, minilm, minilm_tokens))
        return encoders / f"minilm-tokens{precision}-{tokens}-{exporters}"
    modules = (bert, model_folder, sparse_graph, token_export, token_model)
    exporters = [file_sha256(Path(str(module.__file__))) for module in modules]
    return encoders / f"tokens{precision}-{hashed([exporters, _model_of(settings).identity(), tokens])[:24]}"


def token_encoder_directory(settings: Settings) -> Path:
    """Return the token encoder, exported on first use and whenever the stored one is damaged.

    Args:
        settings: Settings of the run.

    Returns:
        Folder of the encoder.

    Raises:
        MissingExtraError: Exporting it needs an extra.
        InvalidArgumentError: The model cannot be used.
        UnavailableError: The model cannot be fetched, or the encoder cannot be written.
    """
    folder, max_tokens = token_encoder_folder(settings), settings.warp.max_tokens
    if not settings.warp.model:
        export = partial(minilm_tokens.export_minilm_tokens, folder, max_tokens=max_tokens, half=_on_gpu(settings))
        return exported(folder, export)
    return exported(folder, partial(_export_model, folder, settings))


def token_fingerprint(settings: Settings) -> str:
    """Return the fingerprint of the token encoder of a named model; "" before its export."""
    try:
        return EncoderSpec.load(token_encoder_folder(settings)).fingerprint
    except IntegrityError:
        return ""


def _export_model(folder: Path, settings: Settings) -> EncoderSpec:
    named = _model_of(settings)
    model = token_model.read_token_model(named.fetch(), named.name)
    return token_export.export_tokens(model, folder, max_tokens=settings.warp.max_tokens, half=_on_gpu(settings))


def _on_gpu(settings: Settings) -> bool:
    return device_kind(settings.warp.device) == "cuda"


def _model_of(settings: Settings) -> NamedModel:
    return NamedModel("[warp]", settings.warp.model, settings.warp.revision)
