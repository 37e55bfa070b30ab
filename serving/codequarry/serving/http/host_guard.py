"""Check that the settings keep the guard against DNS rebinding."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from codequarry.schemas.settings.load import ServingSettings

_NOBODYS = ("nobody", "nobodys.invalid", "name.nobodys.invalid")
"""Names that no settings mean: a pattern that fits one of them fits any."""


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
