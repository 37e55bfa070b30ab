"""Streamable HTTP: both profiles, health and metrics on one port, guarded against DNS rebinding and floods."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.health import HealthRequest
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import to_wire
from codequarry.serving.door import Crowd, Door, Patient
from codequarry.serving.http_protocol import guarded_protocol
from codequarry.serving.mcp_server import PROFILES, build_server

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from fastmcp.server.auth import AuthProvider
    from starlette.applications import Starlette

    from codequarry.serving.engine import Engine

PATHS: dict[str, str] = {"full": "/mcp", "chatgpt": "/chatgpt/mcp"}
"""Where each profile is served."""
_SWITCH_S = 0.0005
"""So long may a search keep the interpreter while the event loop wants it; BUSY and health wait for each that runs."""
HEALTH_PATH = "/healthz"
METRICS_PATH = "/metrics"
MAX_BODY_BYTES = 1 << 20


@dataclass(frozen=True)
class Service:
    """What is served over HTTP."""

    engine: Engine
    version: str
    """Of the program, as clients see it."""
    auth: AuthProvider | None = None
    """Who may call; everybody when None."""
    prepared: Callable[[FastMCP], None] = lambda _: None
    """Called with each server before it is mounted."""


def http_app(service: Service) -> Starlette:
    """The ASGI application: no sessions, JSON answers, Host and Origin checked before anything is read.

    A foreign Host gets 421, a foreign Origin 403, a missing or wrong token 401, a body above 1 MiB 413. ``GET
    /healthz`` answers probes: 200 when a version is served, 503 when none is; whoever needs a token and has none
    learns the status alone. ``GET /metrics`` is for Prometheus.
    """
    crowd = Crowd(service.engine.gate)
    apps = {profile: _profile_app(service, profile, crowd) for profile in PROFILES}
    whole = apps.pop("full")
    for app in apps.values():
        whole.router.routes.extend(app.routes)
    inner = [whole.router.lifespan_context, *(app.router.lifespan_context for app in apps.values())]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner[0](app), inner[1](app):
            yield

    whole.router.lifespan_context = lifespan
    return whole


def serve_http(service: Service, settings: ServingSettings, announce: Callable[[str], None]) -> None:
    """Serve until interrupted.

    announce: called with the service's URL, without a path, once the port is taken.

    Raises UnavailableError: the address cannot be bound.
    """
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    sys.setswitchinterval(_SWITCH_S)
    config = uvicorn_config(service, settings)
    with _spared_collector(), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


@contextmanager
def _spared_collector() -> Iterator[None]:
    """Keep what is there by now, modules above all, out of the garbage collector's rounds.

    A full round over it stops every thread for a tenth of a second, every few seconds under load, and finds nothing:
    a version that is replaced goes when the last reference to it does.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def uvicorn_config(service: Service, settings: ServingSettings) -> uvicorn.Config:
    """How uvicorn serves it."""
    # Requests are logged by nobody: a query is the caller's business.
    return uvicorn.Config(
        http_app(service),
        http=guarded_protocol(settings),
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
    )


def _profile_app(service: Service, profile: str, crowd: Crowd) -> Starlette:
    engine, settings = service.engine, service.engine.settings
    server = build_server(engine, version=service.version, profile=profile, auth=service.auth)
    service.prepared(server)
    if profile == "full":
        _add_routes(server, service)
    telemetry = engine.telemetry
    return server.http_app(
        path=PATHS[profile],
        stateless_http=True,
        json_response=True,
        host_origin_protection=True,
        allowed_hosts=list(settings.allowed_hosts),
        allowed_origins=list(settings.allowed_origins),
        middleware=[
            Middleware(Patient),
            Middleware(RequestBodyLimitMiddleware, max_body_size=MAX_BODY_BYTES),
            Middleware(
                Door,
                crowd=crowd,
                rejected=telemetry.rejected if telemetry else None,
                authenticated=service.auth is not None,
            ),
        ],
    )


def _add_routes(server: FastMCP, service: Service) -> None:
    @server.custom_route(HEALTH_PATH, methods=["GET"], include_in_schema=False)
    async def healthz(request: Request) -> Response:
        found = service.engine.health(HealthRequest())
        status = 503 if found.status == "unavailable" else 200
        told: dict[str, Any] = to_wire(found) if _known(service, request) else {"status": found.status}
        return JSONResponse(told, status, headers={"Cache-Control": "no-store"})

    @server.custom_route(METRICS_PATH, methods=["GET"], include_in_schema=False)
    async def metrics(request: Request) -> Response:
        telemetry = service.engine.telemetry
        if not _known(service, request):
            return Response("Unauthorized", 401, headers={"WWW-Authenticate": "Bearer"})
        if telemetry is None:
            return Response("Not Found", 404)
        from codequarry.serving.metrics import CONTENT_TYPE

        return Response(telemetry.metrics.exposition(), media_type=CONTENT_TYPE)


def _known(service: Service, request: Request) -> bool:
    return service.auth is None or request.user.is_authenticated


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UnavailableError: the address cannot be bound."""
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
