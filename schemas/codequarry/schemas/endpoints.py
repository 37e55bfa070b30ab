"""Model servers that speak OpenAI's HTTP protocol: vLLM, TEI, Ollama, llama.cpp, infinity and the like.

One JSON request, one JSON answer, bounded in time and size. What such a server says is data: its status and form are
checked, redirects are not followed, and neither proxies nor credentials are taken from the surroundings. The key comes
from the environment variable that the settings name, and is never stored, shown or logged.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from codequarry.schemas.errors import EndpointError

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""What an environment variable may be called, in settings that name one."""
MAX_ANSWER_BYTES = 64 << 20
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
_KEYS_TIMEOUT_S = 10.0
_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LARGE = frozenset({400, 413, 422})
_EXCERPT_CHARS = 200
REST_S = 5.0
"""So long a server that failed is not asked again by who has no time for it."""
_sleep = time.sleep
_T = TypeVar("_T")


def checked_url(url: str) -> str:
    """The base address of a server, without a slash at its end. Raises ValueError: it is none.

    >>> checked_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'
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
    """Where a server is, and how it is asked."""

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


class Endpoint:
    """A server to ask. Safe to share between threads; connections are kept and closed with the last reference."""

    def __init__(self, options: EndpointOptions) -> None:
        self.options = options
        self._client: httpx2.Client | None = None

    def post(self, path: str, payload: Mapping[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Send JSON and return the JSON object that answers; one attempt.

        path: behind the base address. timeout_s: instead of that of the options; an answer that drips in slowly ends
        within twice that time.

        Raises EndpointError: no answer, a refusal, or something else than a JSON object.
        """
        import httpx2

        timeout = timeout_s or self.options.timeout_s
        ends = time.monotonic() + timeout
        body = bytearray()
        try:
            with self._connected().stream(
                "POST",
                self.options.url + path,
                content=json.dumps(payload).encode(),
                headers=self._headers(),
                timeout=timeout,
            ) as answer:
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER_BYTES:
                        raise EndpointError(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
                    if time.monotonic() > ends:
                        raise EndpointError(f"no whole answer within {timeout:g} s", retryable=True)
                status, retry_after = answer.status_code, answer.headers.get("retry-after", "")
        except httpx2.TimeoutException as error:
            raise EndpointError(f"no answer within {timeout:g} s", retryable=True) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            logger.info("%s: %s", self.options.url, error)
            raise EndpointError(f"it cannot be reached ({type(error).__name__})", retryable=True) from error
        if status != 200:
            raise self._refused(status, bytes(body), retry_after)
        return _object(bytes(body))

    def _connected(self) -> httpx2.Client:
        import httpx2

        if self._client is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self.options.concurrency)
            # Neither proxies nor .netrc of the surroundings: texts and key go to the address of the settings alone.
            self._client = httpx2.Client(follow_redirects=False, trust_env=False, limits=limits)
            weakref.finalize(self, self._client.close)
        return self._client

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self.options.key_variable, "") if self.options.key_variable else ""
        return {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})

    def _refused(self, status: int, body: bytes, retry_after: str) -> EndpointError:
        said = "".join(one for one in body[:_EXCERPT_CHARS].decode("utf-8", "replace") if one.isprintable())
        logger.info("%s: status %d: %s", self.options.url, status, said)
        remedy = f"it says: {said}" if said else "see the server's log"
        if status in (401, 403):
            variable = self.options.key_variable or "an environment variable that the settings name"
            remedy = f"put a key that it takes into {variable}"
        elif status == 404:
            remedy = "check address (most end in /v1) and model"
        return EndpointError(
            f"it answered with status {status}",
            suggestion=remedy,
            retryable=status in _TRANSIENT,
            retry_after_s=float(retry_after) if retry_after.isdecimal() else 0.0,
            too_large=status in _TOO_LARGE,
        )


class Breaker:
    """Remembers that a server failed, so that who cannot wait does not find it out again for a while."""

    def __init__(self) -> None:
        self._down: tuple[float, str] | None = None

    def check(self) -> None:
        """Raises EndpointError: it failed a moment ago, and with what."""
        if self._down is not None and time.monotonic() < self._down[0]:
            raise EndpointError(self._down[1])

    def failed(self, error: EndpointError) -> None:
        """Give the server a rest from now on."""
        # The text alone: the error would keep the frames of the request.
        self._down = (time.monotonic() + REST_S, error.message)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EndpointError("its answer is no JSON, or was cut short", retryable=True) from error
    if not isinstance(found, dict):
        raise EndpointError("its answer is no JSON object")
    return cast("dict[str, Any]", found)


def patiently(ask: Callable[[], _T], retries: int) -> _T:
    """What a request answers, tried again after what passes, each time after twice as long.

    The pause is random between half of it and all of it, so that many who were turned away do not come back at once,
    and never shorter than a server asks for, up to 30 s.

    Raises EndpointError: the last one, or the first that would come again.
    """
    for attempt in range(retries + 1):
        try:
            return ask()
        except EndpointError as error:
            if not error.retryable or attempt == retries:
                raise
            pause = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S) * random.uniform(0.5, 1)
            _sleep(min(max(pause, error.retry_after_s), LONGEST_PAUSE_S))
    raise AssertionError("unreachable")


def key_client() -> httpx2.AsyncClient:
    """What fetches the keys of an identity provider: no redirects, neither proxies nor .netrc of the surroundings."""
    import httpx2

    return httpx2.AsyncClient(timeout=_KEYS_TIMEOUT_S, follow_redirects=False, trust_env=False)
