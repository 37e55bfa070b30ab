"""Signatures of archives, in minisign's format: of ``manifest.json``, which determines every byte of an archive.

So a signature is checked before the first file is unpacked, and one made with ``minisign -Sm manifest.json`` will do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.pipelines.store.durable import new_file, write_all
from codequarry.schemas.bundle.manifest_fields import visible_line
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    import minisign

SUFFIX = ".minisig"
"""Suffix of the file beside an archive that holds its signature."""
_MAX_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that was checked."""

    key: str
    """The public key, in base64."""
    comment: str
    """Trusted comment of the signature, in visible characters."""


def signature_of(archive: Path) -> Path:
    """Return the file that holds an archive's signature.

    >>> str(signature_of(Path("app.tar")))
    'app.tar.minisig'
    """
    return archive.with_name(archive.name + SUFFIX)


def read_secret_key(file: Path, password: Callable[[], str]) -> minisign.SecretKey:
    """Read a secret key of ``minisign -G``.

    Args:
        file: File of the key.
        password: Asks for the password; called when the key is encrypted.

    Returns:
        The decrypted key.

    Raises:
        InvalidArgumentError: The file is no such key, or the password is wrong.
    """
    import minisign

    try:
        key = minisign.SecretKey.from_bytes(_read(file))
        if key.is_encrypted():
            key.decrypt(password())
    except minisign.Error as error:
        raise InvalidArgumentError(
            f"{file} cannot sign: {error}", suggestion="name a secret key that `minisign -G` made"
        ) from error
    return key


def write_signature(archive: Path, raw: bytes, version: str, key: minisign.SecretKey) -> Path:
    """Sign a manifest and put the signature beside its archive.

    Args:
        archive: The archive.
        raw: Bytes of its ``manifest.json``.
        version: Name of the version, for the trusted comment.
        key: Decrypted secret key.

    Returns:
        File of the signature.

    Raises:
        UnavailableError: The disk refuses.
    """
    comment = f"timestamp:{int(time.time())}\tfile:manifest.json\tversion:{version}"
    data = bytes(key.sign(raw, trusted_comment=comment)) + b"\n"
    target = signature_of(archive)
    try:
        with new_file(target) as descriptor:
            write_all(descriptor, data)
    except OSError as error:
        raise UnavailableError(
            f"{target} cannot be written: {error.strerror or error}", suggestion="free disk space, and export again"
        ) from error
    return target


def checked_signature(archive: Path, raw: bytes, keys: Sequence[str]) -> Signed:
    """Check the signature beside an archive.

    Args:
        archive: The archive.
        raw: Bytes of its ``manifest.json``.
        keys: Public keys, see `public_key`; one of them has to have signed.

    Returns:
        Key and comment of the signature.

    Raises:
        IntegrityError: It is not signed, by none of the keys, or for another manifest.
        InvalidArgumentError: A key is not a public key.
    """
    import minisign

    known, file = [public_key(each) for each in keys], signature_of(archive)
    try:
        signature = minisign.Signature.from_bytes(_read(file))
    except InvalidArgumentError as error:
        raise IntegrityError(
            f"{archive} is not signed: {error.message}", suggestion="export it with --sign, and copy both files"
        ) from error
    except minisign.Error as error:
        raise IntegrityError(
            f"{file} is no signature of minisign: {error}", suggestion="copy it again; CURRENT is unchanged"
        ) from error
    for key in known:
        try:
            key.verify(raw, signature)
        except minisign.VerifyError:
            continue
        return Signed(key.to_base64().decode(), visible_line(signature.trusted_comment))
    raise IntegrityError(
        f"{archive} is not signed by {'this key' if len(known) == 1 else f'any of these {len(known)} keys'}, "
        "or is not what was signed",
        suggestion="take the archive from whom you trust; CURRENT is unchanged",
    )


def public_key(text: str) -> minisign.PublicKey:
    """Parse a public key.

    Args:
        text: The line in base64, or the path of a file of ``minisign -G`` that holds it.

    Returns:
        The key.

    Raises:
        InvalidArgumentError: The text is neither.
    """
    import minisign

    try:
        return minisign.PublicKey.from_base64(text)
    except minisign.Error:
        pass
    try:
        return minisign.PublicKey.from_bytes(_read(Path(text)))
    except minisign.Error as error:
        raise InvalidArgumentError(
            f"{text} holds no public key of minisign: {error}",
            suggestion="name its .pub file, or the line that begins with RW",
        ) from error


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_BYTES)
    except OSError as error:
        raise InvalidArgumentError(
            f"{file} cannot be read: {error.strerror}", suggestion="name a file of minisign"
        ) from error
