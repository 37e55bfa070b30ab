"""Addresses of model servers, and the timeouts and limits of calls to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    pass


ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""What an environment variable may be called, in settings that name one."""


def checked_url(url: str) -> str:
    """Check the base address of a server.

    >>> checked_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'

    Args:
        url: The address.

    Returns:
        The address, without a slash at its end.

    Raises:
        ValueError: It is not such an address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address such as http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected an address without credentials: the key comes from the environment")
    if parts.query or parts.fragment:
        raise ValueError("expected an address without ? and #")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Address of a server, and the limits of calls to it."""

    url: str
    """As `checked_url` gives it."""
    key_variable: str = ""
    """Environment variable that holds the key; none is sent when it is not set."""
    timeout_s: float = 60.0
    """Longest time one attempt may take."""
    retries: int = 0
    """Attempts after the first one, of a request that failed in passing."""
    batch: int = 32
    """Texts of one request."""
    concurrency: int = 4
    """Requests under way at once."""
