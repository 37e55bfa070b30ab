"""Streamable HTTP: all profiles, plain JSON, health and metrics on one port, guarded against rebinding and floods.

Plain JSON is for scripts without MCP: ``POST <path>/tools/list`` and ``POST <path>/tools/<name>``. The body of a call
is the tool's arguments, the answer its structured content. Errors have the same shape as over MCP, and a status that
tells their kind.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import uvicorn
from pydantic_core import from_json
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.health import HealthRequest
from codequarry.schemas.wire.search import to_wire
from codequarry.serving.catalog import present
from codequarry.serving.http.door import BodyLimit, Crowd, Door, Patient
from codequarry.serving.http.protocol import MAX_HEADER_BYTES, ROUTER_PATH, STOP_S, guarded_protocol
from codequarry.serving.page.keeper_views import KeptRecords
from codequarry.serving.page.mcp_app import read_app_resource
from codequarry.serving.page.password import PasswordAsToken
from codequarry.serving.page.routes import add_page
from codequarry.serving.request.admission import begin_call, current_call, token_client
from codequarry.serving.server.mcp import ToolServer, build_server, failure, listed_tools
from codequarry.serving.server.profiles import DEFAULT_PROFILE, PROFILES
from codequarry.serving.server.scoped_token import ScopedToken, scope_of_request

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from fastmcp.server.auth import AuthProvider
    from starlette.applications import Starlette

    from codequarry.serving.engine.tool_engine import ToolEngine
    from codequarry.serving.fleet.replica_door import ReplicaDoor

PATHS: dict[str, str] = {DEFAULT_PROFILE: "/mcp", "full": "/mcp/all", "chatgpt": "/chatgpt/mcp"}
"""Path of each profile."""
_SWITCH_S = 0.0005
"""Seconds that a search may keep the interpreter from the event loop; BUSY and health wait for each running search."""
HEALTH_PATH = "/healthz"
METRICS_PATH = "/metrics"
MAX_BODY_BYTES = 1 << 20
STATUSES = {
    "INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "BUSY": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE": 504,
}  # fmt: skip
"""Status of an answer by the code of its error."""


@dataclass(frozen=True)
class Service:
    """Engine and options of a service over HTTP."""

    engine: ToolEngine
    version: str
    """Version of the program, as clients see it."""
    auth: AuthProvider | None = None
    """Check of callers; None admits everyone."""
    replica: ReplicaDoor | None = None
    """Answers routers; None where none may ask."""
    routers: tuple[str, ...] = ()
    """Names of the tokens of routers."""
    root: BundleRoot | None = None
    """Bundle root whose versions the page shows; None shows none."""
    prepared: Callable[[FastMCP], None] = lambda _: None
    """Called with each server before it is mounted."""


def http_app(service: Service) -> Starlette:
    """Build the ASGI application: no sessions, JSON answers, Host and Origin checked before anything is read.

    A foreign Host gets 421, a foreign Origin 403, a missing or wrong token 401, a body above 1 MiB 413. ``GET
    /healthz`` answers probes: 200 when a version is served, 503 when none is, or none yet. A caller without a required
    token learns only the status. ``GET /metrics`` is for Prometheus. ``POST /mcp/tools/list`` and
    ``POST /mcp/tools/<name>`` are the same tools in plain JSON.
    """
    crowd = Crowd(service.engine.gate)
    apps = {profile: _profile_app(service, profile, crowd) for profile in PROFILES}
    whole = apps.pop(DEFAULT_PROFILE)
    for app in apps.values():
        whole.router.routes.extend(app.routes)
    inner = [whole.router.lifespan_context, *(app.router.lifespan_context for app in apps.values())]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in inner:
                await stack.enter_async_context(each(app))
            yield

    whole.router.lifespan_context = lifespan
    return whole


def serve_http(service: Service, settings: ServingSettings, announce: Callable[[str], None]) -> None:
    """Serve until interrupted or told to end, which lets running calls finish and is not an error.

    Args:
        service: Engine and options.
        settings: Address and limits.
        announce: Called with the service's URL, without a path, once the port is bound.

    Raises:
        UnavailableError: The address cannot be bound.
    """
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    sys.setswitchinterval(_SWITCH_S)
    config = uvicorn_config(http_app(service), settings)
    with _ended_by_sigterm(), _spared_collector(), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(uvicorn.Server(config).serve(sockets=[listener]))


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Continue after the block on SIGTERM: uvicorn shuts down cleanly, then sends itself the signal again.

    SIGHUP, from a terminal that is closed, ends the service in the same way; uvicorn does not know it.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    hangup = signal.getsignal(signal.SIGHUP)
    if hangup != signal.SIG_IGN:  # as it is under nohup
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangup)


@contextmanager
def _spared_collector() -> Iterator[None]:
    """Keep existing objects, modules above all, out of the garbage collector's rounds.

    A full round over them stops every thread for a tenth of a second, every few seconds under load, and finds nothing:
    a version that is replaced is freed when the last reference to it goes.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def uvicorn_config(app: Starlette, settings: ServingSettings) -> uvicorn.Config:
    """Return uvicorn's configuration for an application whose clients are not trusted."""
    # No request is logged, because queries are private. Malformed requests are not logged either: anyone can send them.
    return uvicorn.Config(
        app,
        http=guarded_protocol(settings),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        # Connections are cut off earlier; this limit ends whatever still runs then.
        timeout_graceful_shutdown=STOP_S + 5,
        log_level="error",
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
    server = build_server(engine, version=service.version, profile=profile, auth=service.auth, app=read_app_resource)
    service.prepared(server)
    page: frozenset[str] = frozenset()
    if profile == DEFAULT_PROFILE:
        _add_routes(server, service)
        if service.replica is not None and service.routers and service.auth is not None:
            _add_router_door(server, service.replica, service.routers)
        _add_plain_tools(server, PATHS[profile], page=settings.page, authenticated=service.auth is not None)
        if settings.page:
            pools = engine.telemetry.pool_folder if engine.telemetry else None
            kept = KeptRecords(service.root, pools) if service.root else None
            page = add_page(server, STATUSES, authenticated=service.auth is not None, kept=kept)
    telemetry = engine.telemetry
    app = server.http_app(
        path=PATHS[profile],
        stateless_http=True,
        json_response=True,
        host_origin_protection=True,
        allowed_hosts=list(settings.allowed_hosts),
        allowed_origins=list(settings.allowed_origins),
        middleware=[
            Middleware(Patient),
            Middleware(BodyLimit, max_body_size=MAX_BODY_BYTES, authenticated=service.auth is not None),
            Middleware(
                Door,
                crowd=crowd,
                rejected=telemetry.rejected if telemetry else None,
                authenticated=service.auth is not None,
            ),
        ],
    )
    if page and service.auth is not None:
        app.add_middleware(PasswordAsToken, paths=page)
    return app


def _add_routes(server: FastMCP, service: Service) -> None:
    @server.custom_route(HEALTH_PATH, methods=["GET"], include_in_schema=False)
    async def healthz(request: Request) -> Response:
        call = current_call()
        call.scope = scope_of_request(request, authenticated=service.auth is not None)
        begin_call(call)
        found = service.engine.health(HealthRequest())
        status = 503 if found.status in ("starting", "unavailable") else 200
        told: dict[str, Any] = to_wire(found) if _is_authenticated(service, request) else {"status": found.status}
        return JSONResponse(told, status, headers={"Cache-Control": "no-store"})

    @server.custom_route(METRICS_PATH, methods=["GET"], include_in_schema=False)
    async def metrics(request: Request) -> Response:
        telemetry = service.engine.telemetry
        if not _is_authenticated(service, request):
            return Response("Unauthorized", 401, headers={"WWW-Authenticate": "Bearer"})
        # Its sums are of all callers and all repositories.
        if telemetry is None or not scope_of_request(request, authenticated=service.auth is not None).whole:
            return Response("Not Found", 404)
        from codequarry.serving.telemetry.metrics import CONTENT_TYPE

        return Response(telemetry.metrics.exposition(), media_type=CONTENT_TYPE)


def _add_router_door(server: FastMCP, door: ReplicaDoor, routers: tuple[str, ...]) -> None:
    """Let routers ask the bundles of this replica: holders of tokens of the settings whose names are listed."""

    @server.custom_route(ROUTER_PATH, methods=["POST"], include_in_schema=False)
    async def ask(request: Request) -> Response:
        token = getattr(request.user, "access_token", None)
        if not isinstance(token, ScopedToken):
            return Response("Unauthorized", 401, headers={"WWW-Authenticate": "Bearer"})
        if not token.listed or token.client_id not in routers:
            return Response("Forbidden", 403)
        body = await request.body()
        answer = await anyio.to_thread.run_sync(door.answer, body, token_client(token.client_id), token.repositories)
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})


def _is_authenticated(service: Service, request: Request) -> bool:
    return service.auth is None or request.user.is_authenticated


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        host: Address to bind.
        port: Port to bind; 0 for any free one.

    Returns:
        The socket.

    Raises:
        UnavailableError: The address cannot be bound.
    """
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


def _add_plain_tools(server: ToolServer, path: str, *, page: bool, authenticated: bool) -> None:
    """Add the routes.

    Args:
        server: Server whose tools they call, and whose application gets them.
        path: Path of the protocol.
        page: The page is served, and named in the list of tools.
        authenticated: Callers need a token.
    """
    listed, tools = listed_tools(page=page), server.own

    @server.custom_route(f"{path}/tools/{{name}}", methods=["POST"], include_in_schema=False)
    async def call(request: Request) -> Response:
        if authenticated and not request.user.is_authenticated:
            return Response("Unauthorized", 401, headers={"WWW-Authenticate": "Bearer"})
        name = request.path_params["name"]
        if name == "list":
            return JSONResponse({"tools": listed})
        if name not in tools:
            return _refusal(
                NotFoundError("there is no such tool", suggestion=f"use one of {present.sentence_list(tools)}")
            )
        try:
            arguments = from_json(await request.body() or b"{}", allow_inf_nan=False)
        except ValueError:
            return _refusal(InvalidArgumentError("the body is no JSON", suggestion="send an object of arguments"))
        if not isinstance(arguments, dict):
            return _refusal(InvalidArgumentError("the body is no object", suggestion="send an object of arguments"))
        result = await tools[name].run(arguments)
        return _response(result.structured_content or {})


def _refusal(error: CodequarryError) -> Response:
    return _response(failure(error).structured_content or {})


def _response(answer: dict[str, Any]) -> Response:
    error = answer.get("error")
    return JSONResponse(
        answer, 200 if error is None else STATUSES[error["code"]], headers={"Cache-Control": "no-store"}
    )
