"""The sparse encoder of the settings, exported into the store on first use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.embed.export import sparse as sparse_export
from codequarry.pipelines.embed.export import sparse_graph, sparse_model, sparse_torch
from codequarry.pipelines.embed.export.sparse import DOCUMENTS, QUERIES, export_sparse
from codequarry.pipelines.embed.export.sparse_model import read_sparse_model
from codequarry.pipelines.embed.named_model import NamedModel
from codequarry.pipelines.store.parts import hashed
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.files.integrity import file_sha256


@dataclass(frozen=True, slots=True)
class SparseFolders:
    """Encoder directories."""

    documents: Path
    queries: Path
    """The folder of documents, unless queries are inference-free."""


def sparse_folder(settings: Settings) -> Path:
    """Return the folder of the sparse encoders, where they are or will be exported.

    Its name depends on the model's files, or on its name and revision.

    Args:
        settings: Settings of the run.

    Returns:
        Folder in the store.

    Raises:
        InvalidArgumentError: The model is neither a folder nor a name with a revision.
    """
    modules = (sparse_export, sparse_graph, sparse_model, sparse_torch)
    exporters = [file_sha256(Path(str(module.__file__))) for module in modules]
    deciding = [exporters, _model_of(settings).identity(), settings.splade.max_tokens]
    return settings.paths.store / "encoders" / f"splade-{hashed(deciding)[:24]}"


def sparse_directories(settings: Settings) -> SparseFolders:
    """Return the sparse encoders, exported on first use and whenever the stored ones are damaged.

    Args:
        settings: Settings of the run.

    Returns:
        Folders of the encoders.

    Raises:
        MissingExtraError: A library is not installed.
        InvalidArgumentError: The model cannot be used.
        UnavailableError: The model cannot be fetched, or the disk refuses.
    """
    folder = sparse_folder(settings)
    with exclusive(folder.with_name(f".{folder.name}.lock"), "exporting the sparse encoder", wait=True):
        try:
            return _verified(folder)
        except IntegrityError:
            try:
                named = _model_of(settings)
                model = read_sparse_model(named.fetch(), named.name)
                export_sparse(model, folder, max_tokens=settings.splade.max_tokens)
            except OSError as error:
                raise UnavailableError(
                    f"the sparse encoder cannot be written to {folder}: {error.strerror or error}",
                    suggestion="free disk space or check permissions, then run again",
                ) from error
    return _verified(folder)


def sparse_fingerprints(settings: Settings) -> tuple[str, str] | None:
    """Return the fingerprints of the encoders of documents and of queries; None before the export."""
    folder = sparse_folder(settings)
    try:
        folders = _folders(folder)
        return EncoderSpec.load(folders.documents).fingerprint, EncoderSpec.load(folders.queries).fingerprint
    except IntegrityError:
        return None


def _verified(folder: Path) -> SparseFolders:
    folders = _folders(folder)
    for each in {folders.documents, folders.queries}:
        EncoderSpec.load(each).verify(each)
    return folders


def _folders(folder: Path) -> SparseFolders:
    queries = folder / QUERIES
    return SparseFolders(folder / DOCUMENTS, queries if queries.is_dir() else folder / DOCUMENTS)


def _model_of(settings: Settings) -> NamedModel:
    return NamedModel("[splade]", settings.splade.model, settings.splade.revision)
