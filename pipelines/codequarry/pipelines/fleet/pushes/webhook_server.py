"""The address to which code hosts send their webhooks.

A webhook that bears no signature of a known secret is refused before anything of it is read. One that does only says
where to look: the build asks the repository itself for its head. So a message that is sent twice costs one question.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from codequarry.pipelines.fleet.pushes.push_event import PushEvent, read_push
from codequarry.pipelines.fleet.pushes.webhook_signature import why_untrusted
from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.http.app import HEALTH_PATH, listen, uvicorn_config
from codequarry.serving.http.door import Patient

WEBHOOK_PATH = "/webhook"
_BODY_BYTES = 25 << 20
"""Largest body: GitHub sends none above 25 MB."""
_START_S = 30.0

Queue = Callable[[PushEvent], Sequence[str]]
"""Queues the repositories that a push concerns, and returns their names."""
State = Callable[[], dict[str, object]]
"""Returns what healthz tells."""


def webhook_app(secrets: Sequence[str], queue: Queue, refused: Callable[[str], None], state: State) -> Starlette:
    """Build the ASGI application: ``POST /webhook`` and ``GET /healthz``.

    Args:
        secrets: Secrets of the webhooks; several while one replaces another.
        queue: Called for each push that is trusted.
        refused: Told why a webhook is refused, for the operator; its sender learns the status.
        state: Returns what healthz tells.

    Returns:
        The application.
    """

    async def webhook(request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.body()
        if untrusted := why_untrusted(headers, body, secrets, time.time()):
            refused(untrusted)
            return JSONResponse({"error": "not signed by a secret that is known here"}, 401)
        try:
            push = read_push(headers, body)
        except ValueError as error:
            refused(str(error))
            return JSONResponse({"error": str(error)}, 400)
        queued = queue(push) if push is not None else ()
        return JSONResponse({"queued": len(queued)}, 202 if queued else 200)

    async def healthz(_request: Request) -> Response:
        return JSONResponse(state(), headers={"Cache-Control": "no-store"})

    return Starlette(
        routes=[Route(WEBHOOK_PATH, webhook, methods=["POST"]), Route(HEALTH_PATH, healthz, methods=["GET"])],
        middleware=[Middleware(Patient), Middleware(RequestBodyLimitMiddleware, max_body_size=_BODY_BYTES)],
    )


@contextmanager
def listening(app: Starlette, settings: ServingSettings, host: str, port: int) -> Iterator[str]:
    """Answer webhooks in a thread of its own for the block.

    Args:
        app: Application of `webhook_app`.
        settings: Limits of connections.
        host: Address to bind.
        port: Port to bind; 0 for any free one.

    Yields:
        The URL for webhooks on this machine.

    Raises:
        UnavailableError: The address cannot be bound.
    """
    listener = listen(host, port)
    server = uvicorn.Server(uvicorn_config(app, settings))
    thread = threading.Thread(target=server.run, args=([listener],), name="webhooks", daemon=True)
    thread.start()
    ends = time.monotonic() + _START_S
    while not server.started and thread.is_alive() and time.monotonic() < ends:
        time.sleep(0.01)
    bound = listener.getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    try:
        yield f"http://{shown}:{bound[1]}{WEBHOOK_PATH}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
