"""The encoders that the settings name: the shipped one, folders, and one that is exported into the store at need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codequarry.pipelines import minilm, minilm_tokens, model_export, torch_encoder
from codequarry.pipelines.endpoint_export import export_endpoint
from codequarry.pipelines.model_export import export_model
from codequarry.pipelines.workspace import exclusive
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.known_files import known_sha256
from codequarry.schemas.layout import DENSE_LEGS
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings

SHIPPED = Path(__file__).with_name("code_encoder")
"""The static encoder of this package, with its model card."""


def encoder_folders(settings: Settings) -> dict[str, Path]:
    """Where the encoder of each dense leg of the settings lies, once it is exported, by channel."""
    embedding, (first, second) = settings.embedding, DENSE_LEGS
    adapted = read_adapted(settings)
    folders = {first: adapted.folder if adapted is not None and adapted.kept else base_folder(settings)}
    if settings.indexes.tier != "fast":
        folders[second] = embedding.second or _minilm_folder(settings)
    return folders


def base_folder(settings: Settings) -> Path:
    """Where the encoder of the first leg lies, before it is fitted to anything."""
    if settings.embedding.endpoint or settings.embedding.by_transformers:
        return _model_folder(settings)
    if settings.embedding.model == "static":
        return settings.embedding.folder or SHIPPED
    return _minilm_folder(settings)


def adapted_pointer(settings: Settings) -> Path:
    """The file that tells later stages what came of fitting the encoder to the repositories of this work folder."""
    return settings.paths.work / "adapted.json"


@dataclass(frozen=True, slots=True)
class Adapted:
    """What came of fitting the encoder of the first leg to the repositories."""

    base: str
    """Fingerprint of the encoder it began with."""
    said: str
    """The verdict in one line, or why there is none."""
    result: str
    """Folder of the store that keeps it."""
    kept: bool

    @property
    def folder(self) -> Path:
        """Of the fitted encoder, where it was kept."""
        return Path(self.result) / "encoder"


def read_adapted(settings: Settings) -> Adapted | None:
    """What the last run of the adaptation stage left for the encoder of the settings; None when they want none."""
    if not settings.embedding.adapt or settings.embedding.model != "static":
        return None
    try:
        found = Adapted(**json.loads(adapted_pointer(settings).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.base == EncoderSpec.load(base_folder(settings)).fingerprint else None


def checked_base(settings: Settings) -> Path:
    """The static encoder of the first leg, not fitted to anything. Raises IntegrityError: it is damaged."""
    folder = base_folder(settings)
    _check(folder, "folder")
    return folder


def encoder_directories(settings: Settings) -> dict[str, Path]:
    """The encoder of each dense leg, by channel; exported on first use and whenever the stored one is damaged.

    Raises IntegrityError: the shipped encoder, or one of the settings, is damaged. MissingExtraError: exporting
    another one needs an extra. EndpointError: its server does not answer. InvalidArgumentError: two legs have the same
    encoder.
    """
    folders, exports = encoder_folders(settings), _exports(settings)
    for channel, folder in folders.items():
        if folder in exports:
            _exported(folder, partial(exports[folder], folder))
        else:
            _check(folder, "folder" if channel == DENSE_LEGS[0] else "second")
    found = {channel: EncoderSpec.load(folder) for channel, folder in folders.items()}
    if len({spec.fingerprint for spec in found.values()}) < len(found):
        raise InvalidArgumentError(
            f"tier {settings.indexes.tier} has the encoder {found[DENSE_LEGS[0]].name} twice, expected two",
            suggestion='name another one by [embedding] second, or set [indexes] tier = "fast"',
        )
    return folders


def same_encoders(manifest: Manifest, settings: Settings) -> bool:
    """Whether a version's vectors are by the encoders of the settings; of exported ones, settings and tools tell."""
    folders, minilm_folder = encoder_folders(settings), _minilm_folder(settings)
    made = {leg.channel: leg.encoder.fingerprint for leg in manifest.legs}
    return made.keys() == folders.keys() and all(
        folder == minilm_folder or _fingerprint(folder, _exports(settings)) == made[channel]
        for channel, folder in folders.items()
    )


def _fingerprint(folder: Path, exports: Collection[Path]) -> str:
    """Of an encoder; "" where it is yet to be exported. Raises IntegrityError: it is damaged."""
    try:
        return EncoderSpec.load(folder).fingerprint
    except IntegrityError:
        if folder in exports:
            return ""
        raise


def encoder_libraries(settings: Settings) -> tuple[str, ...]:
    """Distributions of the extra ``models`` that the encoders of the settings are made or run with."""
    folders, exports = encoder_folders(settings).values(), _exports(settings)
    by_onnx = settings.late_interaction or settings.learned_sparse or settings.embedding.by_transformers
    if by_onnx or _minilm_folder(settings) in folders:
        return ("onnx", "onnxruntime")
    given = [folder for folder in folders if folder not in exports]
    return ("onnxruntime",) if any(EncoderSpec.load(folder).kind == "onnx" for folder in given) else ()


def _exports(settings: Settings) -> dict[Path, Callable[[Path], EncoderSpec]]:
    """The folders of the store that encoders are exported to, and what writes each."""
    embedding = settings.embedding
    found: dict[Path, Callable[[Path], EncoderSpec]] = {
        _minilm_folder(settings): partial(minilm.export_minilm, max_tokens=embedding.max_tokens)
    }
    if embedding.endpoint:
        found[_model_folder(settings)] = lambda folder: export_endpoint(folder, embedding)
    elif embedding.by_transformers:
        found[_model_folder(settings)] = lambda folder: export_model(folder, embedding)
    return found


def _model_folder(settings: Settings) -> Path:
    """Of a model that the settings name, behind an endpoint or of sentence-transformers."""
    embedding = settings.embedding
    named: list[object] = [embedding.model, embedding.revision, *embedding.prefixes]
    if embedding.endpoint:
        # Not by the address: a server may move, and the probe tells whether it still runs the same model.
        return _kept(settings, "endpoint", named)
    weights = sorted(Path(embedding.model).rglob("*.safetensors")) if Path(embedding.model).is_dir() else []
    # Not by their contents: hundreds of megabytes would be read again by every step of a run.
    named += [embedding.max_tokens, embedding.device]
    named += [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in weights]
    named += [file_sha256(Path(str(module.__file__))) for module in (model_export, torch_encoder)]
    return _kept(settings, "model", named)


def _kept(settings: Settings, stem: str, named: list[object]) -> Path:
    digest = hashlib.sha256(json.dumps(named).encode()).hexdigest()[:12]
    return settings.paths.store / "encoders" / f"{stem}-{digest}"


def _minilm_folder(settings: Settings) -> Path:
    # The exporter's own code names the folder: an export of older code is another encoder.
    exporter = file_sha256(Path(minilm.__file__))[:12]
    return settings.paths.store / "encoders" / f"minilm-{settings.embedding.max_tokens}-{exporter}"


def _check(folder: Path, key: str) -> None:
    """Raises IntegrityError: an encoder that the settings name by a key, or the shipped one, is damaged."""
    remedy = "install codequarry again" if folder == SHIPPED else f"correct [embedding] {key}, or make it again"
    try:
        spec = EncoderSpec.load(folder)
        spec.verify(folder, known_sha256)
    except IntegrityError as error:
        raise IntegrityError(error.message, suggestion=remedy) from error
    if key == "folder" and spec.kind != "static":
        raise IntegrityError(f"{folder} holds an encoder of kind {spec.kind}, expected static", suggestion=remedy)


def token_encoder_folder(settings: Settings) -> Path:
    """Where the token encoder of the settings lies, once it is exported."""
    exporters = "".join(file_sha256(Path(str(module.__file__)))[:6] for module in (minilm, minilm_tokens))
    return settings.paths.store / "encoders" / f"minilm-tokens-{settings.warp.max_tokens}-{exporters}"


def token_encoder_directory(settings: Settings) -> Path:
    """The token encoder, exported as `encoder_directories` does; raises MissingExtraError, UnavailableError."""
    folder = token_encoder_folder(settings)
    max_tokens = settings.warp.max_tokens
    return _exported(folder, lambda: minilm_tokens.export_minilm_tokens(folder, max_tokens=max_tokens))


def _exported(folder: Path, export: Callable[[], EncoderSpec]) -> Path:
    with exclusive(folder.with_name(f".{folder.name}.lock"), "exporting the encoder", wait=True):
        try:
            EncoderSpec.load(folder).verify(folder, known_sha256)
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
