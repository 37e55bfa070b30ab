"""Files of clients: read whole, and replaced whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.serving.cli.install.json_text import UnreadableConfigError

_MOST_BYTES = 64 << 20


def real_file(file: Path, inside: Path | None = None) -> Path:
    """Return the file that a path leads to. Links are followed: many keep their configurations in one repository.

    Args:
        file: The path.
        inside: Folder that links may not lead out of, since whoever wrote its files wrote them too; None allows all.

    Returns:
        The path without links.

    Raises:
        InvalidArgumentError: A link leads nowhere, or out of the folder.
    """
    real = Path(os.path.realpath(file))
    if inside is not None and not real.is_relative_to(os.path.realpath(inside)):
        raise InvalidArgumentError(
            f"{file} is a link out of the project, to {real}", suggestion="remove the link, or leave --project out"
        )
    if file.is_symlink() and not real.exists():
        raise InvalidArgumentError(f"{file} is a link to {real}, which is not there", suggestion="remove the link")
    return real


def read_config(file: Path) -> str | None:
    """Return the text of a file; None when there is none.

    Args:
        file: The file, without links.

    Returns:
        Its text, with its line ends as they are.

    Raises:
        UnreadableConfigError: It is no regular file, too large, or no UTF-8.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise UnreadableConfigError("it is no file that holds a configuration")
        raw = stream.read(_MOST_BYTES + 1)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UnreadableConfigError("it is no text in UTF-8") from None


def write_config(file: Path, before: str | None, after: str, *, private: bool) -> list[str]:
    """Replace a file, and keep its mode.

    Args:
        file: The file, without links; its folders are made when needed.
        before: Text that was read; None when there was no file.
        after: New text.
        private: Only its owner may read a new file.

    Returns:
        The folders that were made, the outermost first.

    Raises:
        UnavailableError: The file cannot be written, or another program changed it meanwhile.
    """
    made: list[str] = []
    folder = file.parent
    while not folder.exists():
        made.insert(0, str(folder))
        folder = folder.parent
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(file.stat().st_mode) if before is not None else (0o600 if private else 0o666 & ~_umask())
        descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(after.encode())
                stream.flush()
                os.fsync(descriptor)
            os.chmod(temporary, mode)
            if read_config(file) != before:
                raise UnavailableError(
                    f"{file} was changed by another program meanwhile", suggestion="close the client, and try again"
                )
            os.replace(temporary, file)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise UnavailableError(
            f"{file} cannot be written: {error.strerror}", suggestion="check its folder's permissions and disk space"
        ) from error
    return made


def remove_config(file: Path, folders: list[str]) -> None:
    """Remove a file, and folders that are empty then.

    Args:
        file: The file.
        folders: Folders that were made for it, the outermost first.
    """
    file.unlink()
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(folder)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
