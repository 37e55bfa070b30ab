"""Encoders of the settings: the shipped one, folders, and those that are exported into the store when needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codequarry.pipelines.embed import torch as torch_encoder
from codequarry.pipelines.embed.export import bert, minilm
from codequarry.pipelines.embed.export import model as model_export
from codequarry.pipelines.embed.export.endpoint import export_endpoint
from codequarry.pipelines.embed.export.model import export_model
from codequarry.pipelines.embed.half import check_half
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.bundle.manifest import (
    EncoderEntry,
    Manifest,
    ModelEntry,
)
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.device_setting import device_kind
from codequarry.schemas.settings.embedding import EncoderSettings
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec
from codequarry.serving.files.integrity import file_sha256

SHIPPED = Path(__file__).with_name("code_encoder")
"""The static encoder of this package, with its model card."""
_FIRST_FOLDER = "[embedding] folder"


def encoder_folders(settings: Settings) -> dict[str, Path]:
    """Return the folder of each dense index's encoder, where it is or will be exported, by channel."""
    embedding, (first, second) = settings.embedding, DENSE_LEGS
    adapted = read_adapted(settings)
    folders = {first: adapted.folder if adapted is not None and adapted.kept else base_folder(settings)}
    if settings.indexes.tier != "fast":
        folders[second] = _folder_of(settings, embedding.second_encoder)
    return folders


def encoder_settings(settings: Settings, folder: Path) -> EncoderSettings:
    """Return the settings of the encoder in one of the folders that `encoder_folders` gives."""
    second = encoder_folders(settings).get(DENSE_LEGS[1])
    return settings.embedding.second_encoder if folder == second else settings.embedding


def base_folder(settings: Settings) -> Path:
    """Return the folder of the first dense index's encoder before adaptation."""
    return _folder_of(settings, settings.embedding)


def _folder_of(settings: Settings, encoder: EncoderSettings) -> Path:
    """Return the folder where an encoder is or will be exported."""
    if encoder.endpoint or encoder.by_transformers:
        return _model_folder(settings, encoder)
    if encoder.model == "static":
        return encoder.folder or SHIPPED
    return _minilm_folder(settings, encoder)


def adapted_pointer(settings: Settings) -> Path:
    """Return the file that tells later stages the result of adapting the encoder to this work folder's repositories."""
    return settings.paths.work / "adapted.json"


@dataclass(frozen=True, slots=True)
class Adapted:
    """Result of adapting the first dense index's encoder to the repositories."""

    base: str
    """Fingerprint of the encoder before adaptation."""
    said: str
    """The verdict in one line, or the reason for having none."""
    result: str
    """Folder of the store that holds the result."""
    kept: bool

    @property
    def folder(self) -> Path:
        """Folder of the adapted encoder, if it was kept."""
        return Path(self.result) / "encoder"


def read_adapted(settings: Settings) -> Adapted | None:
    """Return the result of the last adaptation of the settings' encoder.

    None when the settings want no adaptation, or there is no result for this encoder.
    """
    if not settings.embedding.adapt or settings.embedding.model != "static":
        return None
    try:
        found = Adapted(**json.loads(adapted_pointer(settings).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.base == EncoderSpec.load(base_folder(settings)).fingerprint else None


def checked_base(settings: Settings) -> Path:
    """Return the static encoder of the first dense index, before adaptation, after verifying its files.

    Args:
        settings: Settings of the run.

    Returns:
        Folder of the encoder.

    Raises:
        IntegrityError: The encoder is damaged.
    """
    folder = base_folder(settings)
    _check(folder, _FIRST_FOLDER)
    return folder


def encoder_directories(settings: Settings) -> dict[str, Path]:
    """Return the encoder of each dense index, exported on first use and whenever the stored one is damaged.

    Args:
        settings: Settings of the run.

    Returns:
        Folders by channel.

    Raises:
        IntegrityError: The shipped encoder, or one of the settings, is damaged.
        MissingExtraError: Exporting another encoder needs an extra.
        EndpointError: The encoder's server does not answer.
        InvalidArgumentError: Two dense indexes have the same encoder.
    """
    folders, exports = encoder_folders(settings), _exports(settings)
    for channel, folder in folders.items():
        if folder in exports:
            exported(folder, partial(exports[folder], folder))
        else:
            _check(folder, _FIRST_FOLDER if channel == DENSE_LEGS[0] else "[embedding.second] folder")
    found = {channel: EncoderSpec.load(folder) for channel, folder in folders.items()}
    if len({spec.fingerprint for spec in found.values()}) < len(found):
        raise InvalidArgumentError(
            f"tier {settings.indexes.tier} has the encoder {found[DENSE_LEGS[0]].name} twice, expected two",
            suggestion='name another one by [embedding.second] model, or set [indexes] tier = "fast"',
        )
    return folders


def same_encoders(manifest: Manifest, settings: Settings) -> bool:
    """Return whether a version's vectors come from the encoders of the settings.

    The folder of an exported MiniLM encoder is not opened: settings and tools decide its contents.
    """
    folders, exports = encoder_folders(settings), _exports(settings)
    from_minilm = {_minilm_folder(settings, encoder) for encoder in _encoders(settings)}
    made = {leg.channel: leg.encoder.fingerprint for leg in manifest.legs}
    return made.keys() == folders.keys() and all(
        folder in from_minilm or _fingerprint(folder, exports) == made[channel] for channel, folder in folders.items()
    )


def _fingerprint(folder: Path, exports: Collection[Path]) -> str:
    """Return the fingerprint of an encoder.

    Args:
        folder: Folder of the encoder.
        exports: Folders that encoders are exported to.

    Returns:
        The fingerprint; "" for an encoder that is not exported yet.

    Raises:
        IntegrityError: The encoder is damaged.
    """
    try:
        return EncoderSpec.load(folder).fingerprint
    except IntegrityError:
        if folder in exports:
            return ""
        raise


def keeps_vectors(kind: str) -> bool:
    """Return whether the store keeps vectors of chunks: those of a static encoder are sums of table rows."""
    return kind != "static"


def encoder_libraries(settings: Settings) -> tuple[str, ...]:
    """Return the distributions of the extra ``models`` that the encoders of the settings are made or run with."""
    folders, exports = encoder_folders(settings).values(), _exports(settings)
    named = {_minilm_folder(settings, encoder) for encoder in _encoders(settings)}
    named |= {_model_folder(settings, encoder) for encoder in _encoders(settings) if encoder.by_transformers}
    if settings.late_interaction or settings.learned_sparse or named & set(folders):
        return ("onnx", "onnxruntime")
    given = [folder for folder in folders if folder not in exports]
    return ("onnxruntime",) if any(EncoderSpec.load(folder).kind == "onnx" for folder in given) else ()


def _exports(settings: Settings) -> dict[Path, Callable[[Path], EncoderSpec]]:
    """Return the function that writes each encoder, by the folder of the store that it is exported to."""
    found: dict[Path, Callable[[Path], EncoderSpec]] = {}
    for encoder in _encoders(settings):
        if encoder.endpoint:
            found[_model_folder(settings, encoder)] = partial(export_endpoint, embedding=encoder)
        elif encoder.by_transformers:
            found[_model_folder(settings, encoder)] = partial(export_model, embedding=encoder)
        else:
            export = partial(minilm.export_minilm, max_tokens=encoder.max_tokens, half=encoder.half)
            found[_minilm_folder(settings, encoder)] = export
    return found


def _encoders(settings: Settings) -> list[EncoderSettings]:
    """Return the settings of each dense index's encoder."""
    return [settings.embedding, *([settings.second_encoder] if settings.second_encoder is not None else [])]


def _model_folder(settings: Settings, embedding: EncoderSettings) -> Path:
    """Return the folder of a model that the settings name, behind an endpoint or of sentence-transformers."""
    named: list[object] = [embedding.model, embedding.revision, *embedding.prefixes]
    if embedding.endpoint:
        # The address is left out: a server may move, and the probe tells whether it still runs the same model.
        return _encoder_folder(settings, "endpoint", named)
    weights = sorted(Path(embedding.model).rglob("*.safetensors")) if Path(embedding.model).is_dir() else []
    # Contents are left out: every step of a run would read hundreds of megabytes again.
    named += [embedding.max_tokens, device_kind(embedding.device)]
    named += [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in weights]
    named += [file_sha256(Path(str(module.__file__))) for module in (model_export, torch_encoder)]
    return _encoder_folder(settings, "model", named)


def _encoder_folder(settings: Settings, stem: str, named: list[object]) -> Path:
    digest = hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]
    return settings.paths.store / "encoders" / f"{stem}-{digest}"


def _minilm_folder(settings: Settings, encoder: EncoderSettings) -> Path:
    # The exporter's own code names the folder: an export of older code is another encoder.
    exporter = "".join(file_sha256(Path(str(module.__file__)))[:6] for module in (bert, minilm))
    precision = "-float16" if encoder.half else ""
    return settings.paths.store / "encoders" / f"minilm{precision}-{encoder.max_tokens}-{exporter}"


def _check(folder: Path, key: str) -> None:
    """Verify an encoder of the settings, or the shipped one.

    Args:
        folder: Folder of the encoder.
        key: Setting that names it.

    Raises:
        IntegrityError: The encoder is damaged, or of the wrong kind.
    """
    remedy = "install codequarry again" if folder == SHIPPED else f"correct {key}, or make it again"
    try:
        spec = EncoderSpec.load(folder)
        spec.verify(folder)
    except IntegrityError as error:
        raise IntegrityError(error.message, suggestion=remedy) from error
    if key == _FIRST_FOLDER and spec.kind != "static":
        raise IntegrityError(f"{folder} holds an encoder of kind {spec.kind}, expected static", suggestion=remedy)


def exported(folder: Path, export: Callable[[], EncoderSpec]) -> Path:
    """Export an encoder on first use and whenever the stored one is damaged.

    Args:
        folder: Folder of the encoder.
        export: Writes it.

    Returns:
        The folder.

    Raises:
        UnavailableError: The encoder cannot be written.
    """
    with exclusive(folder.with_name(f".{folder.name}.lock"), "exporting the encoder", wait=True):
        try:
            spec = EncoderSpec.load(folder)
            spec.verify(folder)
            check_half(folder, spec)
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


def encoder_entry(spec: EncoderSpec) -> EncoderEntry:
    """Return the description of an encoder in the manifest."""
    weights = sorted((name, sha256) for name, sha256 in spec.sha256.items() if name != TOKENIZER_FILE)
    model = ModelEntry(
        kind=spec.kind,
        model=spec.model or "",
        revision=spec.revision or "",
        license=spec.license,
        max_tokens=spec.max_tokens,
        query_prefix=spec.query_prefix,
        document_prefix=spec.document_prefix,
        weights_sha256=hashlib.sha256(json.dumps(weights).encode()).hexdigest(),
        tokenizer_sha256=spec.sha256.get(TOKENIZER_FILE, ""),
    )
    return EncoderEntry(name=spec.name, fingerprint=spec.fingerprint, dim=spec.dim, model=model)
