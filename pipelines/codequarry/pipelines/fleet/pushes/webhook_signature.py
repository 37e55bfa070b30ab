"""Signatures of webhooks, as GitHub, GitLab, Gitea and Forgejo make them.

GitHub signs the body (X-Hub-Signature-256), and so do Gitea, Forgejo and Gogs. GitLab signs it with id and time of the
message, as the Standard Webhooks specification says (webhook-signature), or sends the secret itself (X-Gitlab-Token).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence

_OF_THE_BODY = ("x-hub-signature-256", "x-forgejo-signature", "x-gitea-signature", "x-gogs-signature")
"""Headers with the hexadecimal HMAC-SHA256 of the body, after ``sha256=`` or alone."""
_STANDARD, _STANDARD_ID, _STANDARD_TIME = "webhook-signature", "webhook-id", "webhook-timestamp"
_KEY_PREFIX = "whsec_"
_TOKEN = "x-gitlab-token"
_OLDEST_S = 300.0
"""Age at which a message with a time is refused, so that nobody sends it again later; clocks may differ as much."""


def why_untrusted(headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float) -> str:
    """Say why a webhook cannot be trusted.

    The first header that is there decides, the strongest kind first; a further one does not make up for it.

    >>> digest = hmac.new(b"secret", b"{}", "sha256").hexdigest()
    >>> why_untrusted({"x-hub-signature-256": f"sha256={digest}"}, b"{}", ["old", "secret"], now=0)
    ''

    Args:
        headers: Headers of the request, by name in lower case.
        body: Body of the request, as it came.
        secrets: Secrets of which one must have signed it.
        now: Seconds since the epoch.

    Returns:
        The reason, for people; "" for a webhook that one of the secrets signed.
    """
    if _STANDARD in headers:
        return _why_standard_fails(headers, body, secrets, now)
    for header in _OF_THE_BODY:
        if header in headers:
            given = headers[header].removeprefix("sha256=").lower()
            return _unless_equal(secrets, lambda secret: _signature(secret.encode(), body).hex(), given)
    if _TOKEN in headers:
        return _unless_equal(secrets, lambda secret: secret, headers[_TOKEN])
    return "it bears no signature; give the webhook a secret at the code host"


def _why_standard_fails(headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float) -> str:
    identifier, time = headers.get(_STANDARD_ID, ""), headers.get(_STANDARD_TIME, "")
    if not (time.isascii() and time.isdigit() and len(time) <= 12):
        return f"{_STANDARD_TIME} is no time"
    if abs(now - int(time)) > _OLDEST_S:
        return f"it is not of the last {_OLDEST_S / 60:.0f} minutes; compare the clocks of both machines"
    signed = b".".join((identifier.encode(), time.encode(), body))
    given = [each.removeprefix("v1,") for each in headers[_STANDARD].split() if each.startswith("v1,")]

    def expected(secret: str) -> str:
        return base64.b64encode(_signature(_standard_key(secret), signed)).decode()

    return min((_unless_equal(secrets, expected, each) for each in given), key=len, default="it bears no signature v1")


def _standard_key(secret: str) -> bytes:
    if secret.startswith(_KEY_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_KEY_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def _signature(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, hashlib.sha256)


def _unless_equal(secrets: Sequence[str], expected: Callable[[str], str], given: str) -> str:
    # Every secret is tried, in constant time each: the time tells nothing about any.
    found = [hmac.compare_digest(expected(secret).encode(), given.encode()) for secret in secrets]
    return "" if any(found) else "its signature is of another secret"
