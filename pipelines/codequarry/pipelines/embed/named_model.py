"""A model that a setting names: a folder, or a name on a hub with the commit of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.serving.files.integrity import file_sha256


@dataclass(frozen=True, slots=True)
class NamedModel:
    """Model of one section of the settings."""

    section: str
    """Section as people write it, such as ``[splade]``."""
    model: str
    revision: str

    @property
    def name(self) -> str:
        """Name of the model on its hub; "" for a folder."""
        return self.model if self.revision else ""

    def identity(self) -> list[str]:
        """Return the values that identify the model: name and revision, or the hashes of its files.

        Returns:
            The values.

        Raises:
            InvalidArgumentError: The model is neither a folder nor a name with a revision.
        """
        if self.revision:
            return [self.model, self.revision]
        folder = Path(self.model)
        if not folder.is_dir():
            raise InvalidArgumentError(
                f"{self.section} model: {self.model} is no folder, and has no revision to be fetched by",
                suggestion=f"give a folder, or the name of a model on a hub and {self.section} revision, the commit "
                "of it",
            )
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return [f"{file.relative_to(folder).as_posix()}:{_sha256(file)}" for file in files]

    def fetch(self) -> Path:
        """Return the folder of the model; for a name on a hub, its snapshot in the hub's own cache.

        Returns:
            The folder.

        Raises:
            MissingExtraError: The client of the hub is not installed.
            UnavailableError: The hub does not give the model.
        """
        if not self.revision:
            return Path(self.model)
        try:
            from huggingface_hub import snapshot_download
        except ModuleNotFoundError as error:
            raise missing_extra("a model from a hub", "models", missing=error.name) from None
        unread = ["*.bin", "*.h5", "*.msgpack"]
        try:
            return Path(snapshot_download(self.model, revision=self.revision, ignore_patterns=unread))
        except Exception as error:  # the hub's client raises many kinds, including those of its HTTP library
            raise UnavailableError(
                f"{self.model} at {self.revision[:12]} cannot be fetched from the hub ({type(error).__name__})",
                suggestion=f"check the network and the name, or give {self.section} model a folder",
            ) from error


def _sha256(file: Path) -> str:
    held = file.stat()
    return _known_sha256(file, held.st_size, held.st_mtime_ns)


@lru_cache(maxsize=256)
def _known_sha256(file: Path, size: int, mtime_ns: int) -> str:
    """Return the sha256 of a file of that size and time, cached because one run asks for it many times."""
    return file_sha256(file)
