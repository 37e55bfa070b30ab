"""Streamable HTTP: one endpoint for both protocol eras, guarded against DNS rebinding and oversized bodies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.health import HealthAnswer, HealthRequest
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import to_wire

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from starlette.applications import Starlette

MCP_PATH = "/mcp"
HEALTH_PATH = "/healthz"
MAX_BODY_BYTES = 1 << 20

Health = Callable[[HealthRequest], HealthAnswer]


def http_app(server: FastMCP, settings: ServingSettings, health: Health) -> Starlette:
    """The ASGI application: no sessions, JSON answers, Host and Origin checked before anything is read.

    A foreign Host gets 421, a foreign Origin 403, a body above 1 MiB 413. ``GET /healthz`` answers probes: 200 when a
    version is served, 503 when none is.
    """

    @server.custom_route(HEALTH_PATH, methods=["GET"], include_in_schema=False)
    async def healthz(_: Request) -> JSONResponse:
        found = health(HealthRequest())
        status = 503 if found.status == "unavailable" else 200
        return JSONResponse(to_wire(found), status, headers={"Cache-Control": "no-store"})

    return server.http_app(
        path=MCP_PATH,
        stateless_http=True,
        json_response=True,
        host_origin_protection=True,
        allowed_hosts=list(settings.allowed_hosts),
        allowed_origins=list(settings.allowed_origins),
        middleware=[Middleware(RequestBodyLimitMiddleware, max_body_size=MAX_BODY_BYTES)],
    )


def serve_http(server: FastMCP, settings: ServingSettings, health: Health, announce: Callable[[str], None]) -> None:
    """Serve until interrupted.

    health: tells the state of the server, without waiting.
    announce: called with the endpoint's URL once the port is taken.

    Raises UnavailableError: the address cannot be bound.
    """
    listener = _listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    # Requests are logged by nobody: a query is the caller's business.
    config = uvicorn.Config(
        http_app(server, settings, health), log_config=None, access_log=False, ws="none", lifespan="on"
    )
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}{MCP_PATH}")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def _listen(host: str, port: int) -> socket.socket:
    with ExitStack() as undo:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = undo.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {host} port {port}: {error.strerror or error}",
                suggestion="stop what uses the port, or choose another with --port (0 takes any free one)",
            ) from error
        undo.pop_all()
    return listener
