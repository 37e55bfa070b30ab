"""Openness of the service, told from its settings alone: nothing here loads the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from fnmatch import fnmatchcase

from codequarry.schemas.settings.load import ServingSettings

_NOBODYS = ("nobody", "nobodys.invalid", "name.nobodys.invalid")
"""Names that no settings mean: a pattern that fits one of them fits any."""


def is_loopback(host: str) -> bool:
    """Tell whether an address to bind can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def open_patterns(settings: ServingSettings) -> list[str]:
    """Return the entries of ``allowed_hosts`` and ``allowed_origins`` that let any web page call the service."""
    hosts = [pattern for pattern in settings.allowed_hosts if _fits(_without_port(pattern), _NOBODYS)]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in _NOBODYS]
    return hosts + [pattern for pattern in settings.allowed_origins if _fits(pattern.strip().lower(), origins)]


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


def _without_port(pattern: str) -> str:
    host, colon, port = pattern.strip().lower().rpartition(":")
    return host if colon and ":" not in host and not port.endswith("]") else pattern.strip().lower()
