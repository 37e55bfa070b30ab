"""The encoder that the settings name: the shipped one, or one that is exported into the store on first use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codequarry.pipelines import minilm, minilm_tokens
from codequarry.pipelines.workspace import exclusive
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.settings import Settings

SHIPPED = Path(__file__).with_name("code_encoder")
"""The static encoder of this package, with its model card."""


def encoder_folder(settings: Settings) -> Path:
    """Where the encoder of the settings lies, once it is exported."""
    embedding = settings.embedding
    if embedding.model == "static":
        return embedding.folder or SHIPPED
    # The exporter's own code names the folder: an export of older code is another encoder.
    exporter = file_sha256(Path(minilm.__file__))[:12]
    return settings.paths.store / "encoders" / f"{embedding.model}-{embedding.max_tokens}-{exporter}"


def encoder_directory(settings: Settings) -> Path:
    """The encoder of the settings, exported on first use and whenever the stored one is damaged.

    Raises IntegrityError: the shipped encoder, or that of the settings, is damaged. MissingExtraError: exporting
    another one needs an extra.
    """
    folder = encoder_folder(settings)
    if settings.embedding.model == "static":
        remedy = "install codequarry again" if folder == SHIPPED else "correct [embedding] folder, or train it again"
        try:
            spec = EncoderSpec.load(folder)
            spec.verify(folder)
        except IntegrityError as error:
            raise IntegrityError(error.message, suggestion=remedy) from error
        if spec.kind != "static":
            raise IntegrityError(f"{folder} holds an encoder of kind {spec.kind}, expected static", suggestion=remedy)
        return folder
    max_tokens = settings.embedding.max_tokens
    return _exported(folder, lambda: minilm.export_minilm(folder, max_tokens=max_tokens))


def token_encoder_folder(settings: Settings) -> Path:
    """Where the token encoder of the settings lies, once it is exported."""
    exporters = "".join(file_sha256(Path(str(module.__file__)))[:6] for module in (minilm, minilm_tokens))
    return settings.paths.store / "encoders" / f"minilm-tokens-{settings.warp.max_tokens}-{exporters}"


def token_encoder_directory(settings: Settings) -> Path:
    """The token encoder, exported as `encoder_directory` does; raises MissingExtraError, UnavailableError."""
    folder = token_encoder_folder(settings)
    max_tokens = settings.warp.max_tokens
    return _exported(folder, lambda: minilm_tokens.export_minilm_tokens(folder, max_tokens=max_tokens))


def same_encoder(fingerprint: str, settings: Settings) -> bool:
    """Whether vectors of a fingerprint are those the settings ask for; of exported ones, settings and tools tell."""
    return settings.embedding.model != "static" or EncoderSpec.load(encoder_folder(settings)).fingerprint == fingerprint


def _exported(folder: Path, export: Callable[[], EncoderSpec]) -> Path:
    with exclusive(folder.with_name(f".{folder.name}.lock"), "exporting the encoder", wait=True):
        try:
            EncoderSpec.load(folder).verify(folder)
        except IntegrityError:
            _export(folder, export)
    return folder


def _export(folder: Path, export: Callable[[], EncoderSpec]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        export()
    except OSError as error:
        raise UnavailableError(
            f"the encoder cannot be written to {folder}: {error.strerror or error}",
            suggestion="free disk space or check permissions, then run again",
        ) from error
