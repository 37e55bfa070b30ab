"""Client of model servers that speak OpenAI's HTTP protocol: vLLM, TEI, Ollama, llama.cpp, infinity and the like.

One JSON request, one JSON answer, bounded in time and size. Answers of a server are untrusted: their status and form
are checked, redirects are not followed, and neither proxies nor credentials are taken from the environment. The key
comes from the environment variable that the settings name, and is never stored, shown or logged.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from codequarry.schemas.errors import EndpointError
from codequarry.schemas.settings.model_servers import EndpointOptions

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 64 << 20
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
_KEYS_TIMEOUT_S = 10.0
_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LARGE = frozenset({400, 413, 422})
_EXCERPT_CHARS = 200
REST_S = 5.0
"""Seconds during which a failed server gets no requests from callers that cannot wait."""
_sleep = time.sleep
_T = TypeVar("_T")


class Endpoint:
    """Model server. Safe to share between threads; connections are kept and closed with the last reference."""

    def __init__(self, options: EndpointOptions) -> None:
        self.options = options
        self._client: httpx2.Client | None = None

    def post(self, path: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Send JSON and return the JSON object of the answer; one attempt.

        An answer that drips in slowly ends within twice the time of the options.

        Args:
            path: Path behind the base address.
            payload: Body of the request.

        Returns:
            The JSON object.

        Raises:
            EndpointError: No answer, a refusal, or an answer that is not a JSON object.
        """
        import httpx2

        timeout = self.options.timeout_s
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
            raise self._describe_refusal(status, bytes(body), retry_after)
        return _object(bytes(body))

    def _connected(self) -> httpx2.Client:
        import httpx2

        if self._client is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self.options.concurrency)
            # Neither proxies nor .netrc of the environment: texts and key go only to the address of the settings.
            self._client = httpx2.Client(follow_redirects=False, trust_env=False, limits=limits)
            weakref.finalize(self, self._client.close)
        return self._client

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self.options.key_variable, "") if self.options.key_variable else ""
        return {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})

    def _describe_refusal(self, status: int, body: bytes, retry_after: str) -> EndpointError:
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
    """Circuit breaker that remembers a failed server, so that impatient callers fail at once for a while."""

    def __init__(self) -> None:
        self._down: tuple[float, str] | None = None

    def check(self) -> None:
        """Raise EndpointError, with the last failure, while the server has failed recently."""
        if self._down is not None and time.monotonic() < self._down[0]:
            raise EndpointError(self._down[1])

    def failed(self, error: EndpointError) -> None:
        """Stop requests to the server for a while from now on."""
        # Keep only the text: the error would keep the frames of the request alive.
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
    """Send a request, and try again after transient errors, with exponential backoff.

    The pause is random between half of it and all of it, so that many refused clients do not come back at once. It is
    never shorter than a server asks for, up to 30 s.

    Args:
        ask: Sends the request.
        retries: Number of further attempts.

    Returns:
        The answer.

    Raises:
        EndpointError: The last error, or the first one that is not transient.
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
    """Return a client that fetches the keys of an identity provider.

    It follows no redirects, and uses neither proxies nor .netrc of the environment.
    """
    import httpx2

    return httpx2.AsyncClient(timeout=_KEYS_TIMEOUT_S, follow_redirects=False, trust_env=False)
