"""Place in object storage where versions are kept: its layout, its access, its errors.

::

    objects/<2 hex digits>/<sha256>       bytes of a file; versions that hold the same bytes share them
    versions/<version>/manifest.json      put when all objects of the version are there
    CURRENT                               as in a bundle root; replaced only by who knows what it holds
    fleet/                                generations of a fleet, and its CURRENT (`schemas.fleet.generation`)

Objects and manifests never change. A reader needs no list of the store: CURRENT names a manifest, and that names the
objects. Conditional requests decide between two publishers (`If-Match`, `If-None-Match`). A folder of this machine has
none, so that a lock decides there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.layout import Current, is_version_name
from codequarry.schemas.errors import (
    IntegrityError,
    InvalidArgumentError,
    MissingExtraError,
    NotFoundError,
    RemoteError,
    UnavailableError,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "azure", "abfs", "abfss", "https", "file")
"""Schemes of a place; obstore decides about the rest of its URL."""
_CURRENT = "CURRENT"
_VERSIONS = "versions/"
_OBJECTS = "objects/"
_MULTIPART_BYTES = 8 << 20
"""Files beyond this size are put in parts, without a condition: the bytes of an object follow from its name."""
_MAX_BYTES = 16 << 20
"""Most bytes of an object that is read into memory, unless more is asked for."""
_MAX_RETRIES, _RETRY_S = 6, 30.0
"""A request that fails is tried again so often, and not after this time."""


@dataclass(frozen=True, slots=True)
class NamedCurrent:
    """The content of CURRENT in a store, and the mark by which a replacement says that it knows it."""

    current: Current
    e_tag: str


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """The bytes of an object that is replaced, and the mark by which a replacement says that it knows them."""

    raw: bytes
    e_tag: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of a store."""

    path: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True)
class RemoteStore:
    """A place in object storage."""

    url: str
    """The address, without credentials."""
    store: ObjectStore
    folder: Path | None = None
    """Folder of this machine, where the place is one."""

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> RemoteStore:
        """Open a place; nothing is asked of it yet.

        Credentials and options are those of obstore: environment variables such as AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL
        or GOOGLE_APPLICATION_CREDENTIALS, then what the machine, the pod or a web identity gives. AWS_PROFILE asks
        boto3, where it is installed.

        Args:
            url: Such as s3://bucket/prefix, gs://bucket, az://container, or file:///mnt/shared.
            create: Make the folder of a file URL; buckets are never made.

        Returns:
            The place.

        Raises:
            InvalidArgumentError: It is no such URL, or an option is missing.
            MissingExtraError: obstore is not installed.
        """
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or "@" in parts.netloc:
            raise InvalidArgumentError(
                f"{without_secrets(url)!r} is no place in object storage",
                suggestion="write s3://BUCKET/PREFIX, gs://BUCKET, az://CONTAINER or file:///FOLDER; credentials come "
                "from the environment",
            )
        try:
            import obstore.store
            from obstore.exceptions import BaseError
        except ImportError as error:
            raise MissingExtraError(
                "object storage needs obstore, which is not installed",
                suggestion="install the extra `storage` of codequarry: pip install obstore",
            ) from error
        folder = Path(parts.path) if parts.scheme == "file" else None
        options: dict[str, Any] = {}
        try:
            if folder is not None:
                if create:
                    folder.mkdir(parents=True, exist_ok=True)
            else:
                options = {"retry_config": {"max_retries": _MAX_RETRIES, "retry_timeout": timedelta(seconds=_RETRY_S)}}
            if parts.scheme == "s3":
                options |= _s3_options()
            store = obstore.store.from_url(url, **options)
        except (BaseError, ValueError, OSError) as error:
            raise InvalidArgumentError(
                f"{without_secrets(url)} cannot be opened: {_first_line(error)}",
                suggestion="check the URL, and the environment variables of its provider",
            ) from error
        return cls(without_secrets(url), store, folder)

    def read_current(self) -> NamedCurrent | None:
        """Read CURRENT.

        Returns:
            What it names; None when nothing was published there.

        Raises:
            IntegrityError: CURRENT is something else than one line.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        if (found := self.read_bytes(_CURRENT)) is None:
            return None
        current = Current.parse(found.raw)
        if current is None:
            raise IntegrityError(
                f"{self.url}/{_CURRENT} holds something else ({len(found.raw)} bytes), expected '<version> <sha256>'",
                suggestion="`codequarry push --force` names a version again",
            )
        return NamedCurrent(current, found.e_tag)

    def replace_current(self, new: Current, known: NamedCurrent | None) -> bool:
        """Let CURRENT name another version, if it is still what is known of it.

        Args:
            new: New content.
            known: Content that was read; None when there was none.

        Returns:
            False when another publisher was faster, and CURRENT is what that one wrote.

        Raises:
            RemoteError: The store does not answer: CURRENT may have been replaced or not.
            UnavailableError: It refuses.
        """
        held = None if known is None else NamedBytes(known.current.line().encode(), known.e_tag)
        return self.replace_bytes(_CURRENT, new.line().encode(), held)

    def read_bytes(self, path: str, *, at_most: int = _MAX_BYTES) -> NamedBytes | None:
        """Read an object that is no file of a version.

        Args:
            path: Its path.
            at_most: Most bytes that are read.

        Returns:
            Its bytes; None when it is not there.

        Raises:
            IntegrityError: It has more bytes.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        import obstore

        try:
            with self._translate_errors(f"reading {path}"):
                result = obstore.get(self.store, path)
                if (size := int(result.meta["size"])) > at_most:
                    raise IntegrityError(
                        f"{self.url}/{path} has {size:,} bytes, expected {at_most:,} at most",
                        suggestion="see who wrote it there",
                    )
                return NamedBytes(bytes(result.bytes()), result.meta["e_tag"] or "")
        except NotFoundError:
            return None

    def put_new(self, path: str, raw: bytes) -> bool:
        """Put an object that is never changed.

        Args:
            path: Its path.
            raw: Its bytes.

        Returns:
            False when another one is there.

        Raises:
            RemoteError: The store does not answer: it may have been put or not.
            UnavailableError: It refuses.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            with self._translate_errors(f"putting {path}"):
                obstore.put(self.store, path, raw, mode="create", use_multipart=False)
        except AlreadyExistsError:
            # A repeated request may have come through the first time.
            return (found := self.read_bytes(path, at_most=max(len(raw), _MAX_BYTES))) is not None and found.raw == raw
        return True

    def replace_bytes(self, path: str, raw: bytes, known: NamedBytes | None) -> bool:
        """Replace an object, if it is still what is known of it.

        Args:
            path: Its path.
            raw: New bytes.
            known: Bytes that were read; None when there were none.

        Returns:
            False when another writer was faster, and the object is what that one wrote.

        Raises:
            RemoteError: The store does not answer: it may have been replaced or not.
            UnavailableError: It refuses.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            with self._translate_errors(f"replacing {path}"):
                if self.folder is not None:
                    with exclusive(self.folder / ".lock", "publishing", wait=True):
                        if self.read_bytes(path) != known:
                            return False
                        obstore.put(self.store, path, raw)
                else:
                    mode: Any = "create" if known is None else {"e_tag": known.e_tag}
                    obstore.put(self.store, path, raw, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            # A repeated request may have come through the first time.
            return (found := self.read_bytes(path)) is not None and found.raw == raw
        return True

    def read_manifest(self, version: str) -> bytes:
        """Read a version's manifest.

        Args:
            version: Name of the version.

        Returns:
            Its bytes.

        Raises:
            NotFoundError: There is no such version.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        import obstore

        with self._translate_errors(f"reading the manifest of {version}"):
            return bytes(obstore.get(self.store, _manifest(version)).bytes())

    def put_manifest(self, version: str, raw: bytes) -> None:
        """Put a manifest, unless it is there.

        Args:
            version: Name of the version.
            raw: Its bytes.

        Raises:
            IntegrityError: Another one is there.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        if not self.put_new(_manifest(version), raw):
            raise IntegrityError(
                f"{self.url} holds another version {version}",
                suggestion="nothing was changed there; index again, and push the new version",
            )

    def object_size(self, sha256: str) -> int | None:
        """Look for an object.

        Args:
            sha256: Its digest.

        Returns:
            Its size in bytes; None when it is not there.

        Raises:
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        import obstore

        try:
            with self._translate_errors(f"looking for {_object(sha256)}"):
                return int(obstore.head(self.store, _object(sha256))["size"])
        except NotFoundError:
            return None

    def put_object(self, sha256: str, file: Path) -> None:
        """Put the bytes of a file.

        Args:
            sha256: Digest that the file has.
            file: The file.

        Raises:
            RemoteError: The store does not answer.
            UnavailableError: It refuses, or the file cannot be read.
        """
        import obstore

        with self._translate_errors(f"putting {_object(sha256)}"):
            obstore.put(self.store, _object(sha256), file, use_multipart=file.stat().st_size > _MULTIPART_BYTES)

    def read_object(self, sha256: str, start: int, size: int) -> Iterator[bytes]:
        """Yield the bytes of an object from a place on, in pieces.

        Args:
            sha256: Its digest.
            start: First byte.
            size: Bytes of the whole object.

        Yields:
            Pieces; fewer bytes than expected when the connection ended early.

        Raises:
            NotFoundError: It is not there.
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        import obstore

        if start >= size:
            return
        with self._translate_errors(f"reading {_object(sha256)}"):
            result = obstore.get(self.store, _object(sha256), options={"range": (start, size)})
            for piece in result.stream(1 << 20):
                yield bytes(piece)

    def versions(self) -> list[str]:
        """List the versions whose manifest is there.

        Returns:
            Their names, sorted by name.

        Raises:
            RemoteError: The store does not answer.
            UnavailableError: It refuses.
        """
        return sorted(self.version_times())

    def version_times(self) -> dict[str, datetime]:
        """Return when the manifest of each version was put, by name; raises as `versions`."""
        listed = ((each.path.removeprefix(_VERSIONS).partition("/")[0], each) for each in self.list_objects(_VERSIONS))
        return {name: each.modified for name, each in listed if is_version_name(name)}

    def objects(self) -> Iterator[Stored]:
        """Yield the objects; raises as `versions`."""
        return self.list_objects(_OBJECTS)

    def delete_version(self, version: str) -> None:
        """Remove a manifest; raises as `versions`."""
        self.delete_paths([_manifest(version)])

    def delete_objects(self, digests: Iterable[str]) -> None:
        """Remove objects; raises as `versions`."""
        self.delete_paths([_object(each) for each in digests])

    def delete_paths(self, paths: list[str]) -> None:
        """Remove objects by their paths; raises as `versions`."""
        import obstore

        with self._translate_errors("removing what no version names"):
            if paths:
                obstore.delete(self.store, paths)

    def list_objects(self, prefix: str) -> Iterator[Stored]:
        """Yield the objects below a prefix; raises as `versions`."""
        import obstore

        with self._translate_errors(f"listing {prefix}"):
            for page in obstore.list(self.store, prefix):
                for each in page:
                    yield Stored(each["path"], int(each["size"]), each["last_modified"])

    @contextmanager
    def _translate_errors(self, doing: str) -> Iterator[None]:
        """Give errors of obstore a sentence and a class; a condition that does not hold stays as it is."""
        from obstore import exceptions

        try:
            yield
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{doing} at {self.url} failed: it is not there",
                suggestion="push a version there first, or check the URL",
            ) from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise UnavailableError(
                f"{doing} at {self.url} failed: {_first_line(error)}",
                suggestion="check the credentials in the environment, and what they allow",
            ) from error
        except (exceptions.BaseError, OSError) as error:
            if isinstance(error, UnavailableError):
                raise
            raise RemoteError(
                f"{doing} at {self.url} failed: {_first_line(error)}",
                suggestion="run it again: what is there already does not travel again",
            ) from error


def _manifest(version: str) -> str:
    return f"{_VERSIONS}{version}/manifest.json"


def _object(sha256: str) -> str:
    return f"{_OBJECTS}{sha256[:2]}/{sha256}"


def _s3_options() -> dict[str, Any]:
    options: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if endpoint.startswith("http://"):
        options["client_options"] = {"allow_http": True}
    if "AWS_PROFILE" in os.environ and "AWS_ACCESS_KEY_ID" not in os.environ:
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError as error:
            raise MissingExtraError(
                "AWS_PROFILE is set, and boto3, which reads profiles, is not installed",
                suggestion="pip install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ) from error
        options["credential_provider"] = Boto3CredentialProvider()
    return options


def without_secrets(url: str) -> str:
    """Return a URL without user, password and options.

    >>> without_secrets("s3://key:secret@bucket/prefix/?token=x")
    's3://bucket/prefix'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
