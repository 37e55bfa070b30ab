"""MCP server: the tools over the engine, in both protocol eras, with typed errors.

Arguments are validated here and not by FastMCP, because a tool's errors are part of its contract: one shape, no wording
of a library, no echo of the arguments. Hence `EngineTool`, a tool that owns its schemas and its whole call.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

# A server started inside a repository must not take FastMCP settings from a .env file in it.
os.environ.setdefault("FASTMCP_ENV_FILE", os.devnull)
# Saves a quarter of the cost of a call; the service has metrics and a timeline of its own.
os.environ.setdefault("FASTMCP_TELEMETRY_MODE", "propagation_only")

import anyio
import anyio.to_thread
import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError as UnknownToolError
from fastmcp.server.context import reset_transport, set_transport
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools.base import Tool, ToolResult
from pydantic import BaseModel, PrivateAttr
from pydantic.json_schema import SkipJsonSchema

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError
from codequarry.schemas.wire.search import ErrorAnswer, to_wire
from codequarry.serving.catalog import present
from codequarry.serving.request.admission import Call, Gate, begin_call, current_call, token_client
from codequarry.serving.request.trace import Trace, new_run_id
from codequarry.serving.server.app_resource import APP_OF_TOOL, APP_URI, TOOL_WITH_APP, app_resource
from codequarry.serving.server.descriptions import SERVER_NAME, Answering, ToolDescription
from codequarry.serving.server.profiles import DEFAULT_PROFILE, PROFILES, answer_schema, argument_schema
from codequarry.serving.server.resource import READ, file_template, resource_result
from codequarry.serving.server.scoped_token import scope_of
from codequarry.serving.server.stdio import answering_stdio
from codequarry.serving.text.arguments import parse_call
from codequarry.serving.tools.fetch import error_body

if TYPE_CHECKING:
    from fastmcp.resources.base import ResourceResult
    from fastmcp.server.auth import AuthProvider

    from codequarry.serving.engine.tool_engine import ToolEngine
    from codequarry.serving.telemetry.telemetry import Telemetry

logger = logging.getLogger(__name__)
AppReader = Callable[["ToolServer", str], Awaitable["ResourceResult"]]
"""Reads a resource of the page for a server, by its URI."""


def build_server(
    engine: ToolEngine,
    *,
    version: str,
    profile: str = DEFAULT_PROFILE,
    auth: AuthProvider | None = None,
    app: AppReader | None = None,
) -> ToolServer:
    """Build the server for an open engine; its tool list does not depend on the indexed corpus.

    Args:
        engine: ToolEngine that answers.
        version: Version of the program, as clients see it.
        profile: One of `PROFILES`.
        auth: Check of callers over HTTP; None admits everyone.
        app: Reads the page as an app that clients show; None offers none.

    Returns:
        The server.
    """
    chosen = PROFILES[profile]
    server = ToolServer(
        SERVER_NAME,
        chosen.instructions,
        version=version,
        auth=auth,
        mask_error_details=True,
        strict_input_validation=True,
    )
    if not engine.settings.page or profile == "chatgpt":
        app = None
    tools = [_described(tool, brief=chosen.brief, app=app is not None) for tool in chosen.tools]
    for described, tool in zip(chosen.tools, tools, strict=True):
        # A busy server must still be able to say so.
        gate = None if described.from_memory else engine.gate
        tool.serve(described, gate, engine, by_token=auth is not None)
        server.add_own(tool, listed=described in chosen.listed)
    if profile != "chatgpt":
        reader = _described(READ, brief=False, app=False)
        reader.serve(READ, engine.gate, engine, by_token=auth is not None)
        server.add_reader(reader)
    if app is not None:
        server.add_app(app)
    # Over HTTP, each modern tools/call looks up the tool's schema to check headers against it; without this hook it
    # runs a whole tools/list for that.
    schemas = {tool.name: tool.parameters for tool in tools}
    server._mcp_server.get_tool_input_schema = schemas.get
    return server


def listed_tools(profile: str = DEFAULT_PROFILE, *, page: bool = True) -> list[dict[str, Any]]:
    """Return the tools as ``tools/list`` gives them; needs no bundle, since the list does not depend on one.

    Args:
        profile: Name of the set of tools.
        page: The page is served, and named as the app of a tool.

    Returns:
        One object a tool, in the order of the list.
    """
    chosen = PROFILES[profile]
    tools = [_described(tool, brief=chosen.brief, app=page and profile != "chatgpt") for tool in chosen.listed]
    return [tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


class EngineTool(Tool):
    """Read-only tool: turns arguments into a typed request, and the answer into text and structured content."""

    request: SkipJsonSchema[type[BaseModel]]
    _answering: Answering = PrivateAttr()
    _described: ToolDescription = PrivateAttr()
    _gate: Gate | None = PrivateAttr()
    _engine: ToolEngine = PrivateAttr()
    _by_token: bool = PrivateAttr(default=False)

    def serve(self, described: ToolDescription, gate: Gate | None, engine: ToolEngine, *, by_token: bool) -> None:
        """Connect the tool to the engine.

        Args:
            described: Its function is called in a worker thread, only while the call is admitted.
            gate: Admission control. None for tools that answer from memory at once, which run on the event loop.
            engine: ToolEngine that answers.
            by_token: Tell clients apart by their bearer tokens: many may share an address, and one may have many.
        """
        self._answering, self._described = described.answering(engine), described
        self._gate, self._engine, self._by_token = gate, engine, by_token

    async def run(self, arguments: dict[str, Any], keep: Callable[[BaseModel], None] | None = None) -> ToolResult:
        """Answer one call. Never raises: every failure becomes an error result.

        Args:
            arguments: Arguments as the client sent them.
            keep: Called with the whole answer before it takes the form in which it is sent.

        Returns:
            The answer or the error.
        """
        call = current_call()
        if not call.client:
            # No transport began a call: the worker thread must see the same call that a cancellation marks here.
            call = Call()
            begin_call(call)
        if self._by_token:
            call.scope = scope_of(get_access_token())
        try:
            result = await self._answered(call, *parse_call(self.request, arguments), keep)
        except CodequarryError as error:
            result = self._failed(error)
        except Exception:
            logger.exception("tool %s failed", self.name)
            result = self._failed(_INTERNAL)
        trace = call.trace or Trace(new_run_id(), self.name)
        result.meta = trace.summary()
        telemetry: Telemetry | None = self._engine.telemetry
        if telemetry is not None:
            telemetry.answered(trace, self.name, arguments, result)
        return result

    async def _answered(
        self, call: Call, request: BaseModel, notes: list[str], keep: Callable[[BaseModel], None] | None
    ) -> ToolResult:
        if self._gate is None:
            return self._result_of(request, notes, keep)
        if self._by_token and call.client and (token := get_access_token()) is not None:
            call.client = token_client(token.client_id)
        place = call.place or await self._gate.enter(call.client)

        def work() -> ToolResult:
            if not place.start():
                raise CodequarryError("the call was cancelled before it began")
            try:
                with self._engine.lanes.lane():
                    return self._result_of(request, notes, keep)
            finally:
                place.end()

        try:
            # The gate is the one limit on threads, so anyio's own shared limiter is bypassed. A cancelled call leaves
            # its thread behind, which stops at its next deadline check and only then gives its place back.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except anyio.get_cancelled_exc_class():
            call.abandoned = True
            raise
        finally:
            place.withdraw()

    def _result_of(self, request: BaseModel, notes: list[str], keep: Callable[[BaseModel], None] | None) -> ToolResult:
        answer = _with_notes(self._answering(request), notes)
        if keep is not None:
            keep(answer)
        lean, render = self._described.lean, self._described.render
        if lean is not None:
            answer = lean(request, answer)
        return _result(to_wire(answer), text=None if render is None else render(answer))

    def _failed(self, error: CodequarryError) -> ToolResult:
        telemetry: Telemetry | None = self._engine.telemetry
        if telemetry is not None:
            telemetry.rejected(self.name, error.code)
        return failure(error)


def _with_notes(answer: BaseModel, notes: list[str]) -> BaseModel:
    """Put notes before the others of an answer; answers in the shape of others have no place for them."""
    limits = getattr(answer, "limits", None)
    return answer.model_copy(update={"limits": [*notes, *limits]}) if notes and isinstance(limits, list) else answer


def _described(described: ToolDescription, *, brief: bool, app: bool) -> EngineTool:
    return EngineTool(
        meta=APP_OF_TOOL if app and described.name == TOOL_WITH_APP else None,
        name=described.name,
        title=described.title,
        description=described.text,
        parameters=argument_schema(described, brief=brief),
        output_schema=answer_schema(described, brief=brief),
        annotations=mcp_types.ToolAnnotations(
            title=described.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        request=described.request,
    )


class ToolServer(FastMCP):
    """Server that calls its own tools directly, and answers calls of unknown tools with the usual error shape.

    FastMCP would ask every provider, transform and middleware for a known tool, which takes as long as the rest of a
    call.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.own: dict[str, EngineTool] = {}
        """Its tools by name."""
        self._reader: EngineTool | None = None
        self._app: AppReader | None = None

    def add_own(self, tool: EngineTool, *, listed: bool) -> None:
        """Add a tool that does not change later.

        Args:
            tool: The tool.
            listed: Whether ``tools/list`` names it; calls of it are answered in any case.
        """
        self.own[tool.name] = tool
        if listed:
            self.add_tool(tool)

    def add_reader(self, reader: EngineTool) -> None:
        """Offer indexed files as resources, which this reads."""
        self._reader = reader
        self.add_template(file_template())

    def add_app(self, app: AppReader) -> None:
        """Offer the page, which this reads, as an app that clients show beside the answers of a tool."""
        self._app = app
        self.add_resource(app_resource())

    async def run_stdio_async(self, *_: Any, **__: Any) -> None:
        """Serve on stdin and stdout until stdin ends; FastMCP's own method does not answer unreadable lines."""
        token = set_transport("stdio")
        try:
            async with self._lifespan_manager(), answering_stdio() as (read_stream, write_stream):
                options = self._mcp_server.create_initialization_options()
                await self._mcp_server.run(read_stream, write_stream, options)
        finally:
            reset_transport(token)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> ToolResult:
        """Call a tool, by the protocol or in process."""
        if (tool := self.own.get(name)) is not None:
            return await tool.run(arguments or {})
        try:
            return await super().call_tool(name, arguments, **options)
        except UnknownToolError:
            names = present.sentence_list(tuple(self.own))
            return failure(InvalidArgumentError("there is no such tool", suggestion=f"use one of {names}"))

    async def read_resource(self, uri: str, **options: Any) -> ResourceResult:
        """Read a resource, by the protocol or in process; FastMCP's own errors would repeat the URL."""
        if self._app is not None and uri.startswith(APP_URI):
            return await self._app(self, uri)
        if self._reader is None:
            return await super().read_resource(uri, **options)
        return resource_result(await self._reader.run({"uri": uri}))


_INTERNAL = CodequarryError(
    "the server failed to answer", suggestion="try another query; the server's log holds the details"
)


def failure(error: CodequarryError) -> ToolResult:
    """Convert an error into a tool result: ``isError``, and the error both as text and as structured content."""
    return _result(to_wire(ErrorAnswer(error=error_body(error))), is_error=True)


def _result(payload: dict[str, object], *, text: str | None = None, is_error: bool = False) -> ToolResult:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":")) if text is None else text
    return ToolResult([mcp_types.TextContent(type="text", text=text)], payload, is_error=is_error)
