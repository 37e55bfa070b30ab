"""Helpers for bearer tokens and addresses that do not load the server."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets


def new_token() -> tuple[str, str]:
    """Return a random bearer token, and its sha256 in hex."""
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


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
