"""SCIP indexes that were made elsewhere, in a build or by another indexer, and are named in the settings."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.errors import ScipIndexError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import file_sha256

if TYPE_CHECKING:
    from codequarry.pipelines.scip.index_file import ScipIndex

_MAX_LABEL_CHARS = 80
_ODD = re.compile(r"[^\w .+@/-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class GivenIndex:
    """An index file and the result of reading it."""

    name: str
    """Name of the file, without its folder."""
    sha256: str
    """"" when it could not be read."""
    index: ScipIndex | None
    status: Literal["ok", "missing", "failed"]
    reason: str
    """Reason for a missing index; "" when there is one."""

    @property
    def label(self) -> str:
        """Name and version of the program that wrote the index, as stated in the file; odd characters become '?'."""
        written = f"{self.index.tool} {self.index.tool_version}" if self.index is not None else ""
        return _ODD.sub("?", written).strip()[:_MAX_LABEL_CHARS]


def given_files(name: str, settings: Settings) -> tuple[Path, ...]:
    """Return the index files that the settings name for a repository."""
    repository = repositories_by_name(settings.sources.repositories).get(name)
    return repository.scip if repository is not None else ()


def given_identity(files: tuple[Path, ...]) -> list[tuple[str, str]]:
    """Return (name, sha256) of each file, as ``read_given`` does, without reading the indexes."""
    return [(file.name, _sha256(file)) for file in files]


def read_given(file: Path) -> GivenIndex:
    """Read an index; any failure becomes its status and reason."""
    if not file.is_file():
        return GivenIndex(file.name, "", None, "missing", "there is no such file")
    try:
        data = file.read_bytes()
    except OSError as error:
        return GivenIndex(file.name, "", None, "failed", f"it cannot be read: {error.strerror}")
    digest = hashlib.sha256(data).hexdigest()
    from codequarry.pipelines.scip.index_file import read_scip_file

    try:
        return GivenIndex(file.name, digest, read_scip_file(data), "ok", "")
    except ScipIndexError:
        return GivenIndex(file.name, digest, None, "failed", "it is no SCIP index")


def _sha256(file: Path) -> str:
    try:
        return file_sha256(file) if file.is_file() else ""
    except OSError:
        return ""
