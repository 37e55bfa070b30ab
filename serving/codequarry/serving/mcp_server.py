"""The MCP server: the tools over the engine, in both protocol eras, with typed errors.

Arguments are validated here and not by FastMCP, because a tool's errors are part of its contract: one shape, no
library's wording, no echo of what was sent. Hence `EngineTool`, a tool that owns its schemas and its whole call.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

# A server started inside somebody's repository must not take FastMCP settings from a .env file lying there.
os.environ.setdefault("FASTMCP_ENV_FILE", os.devnull)
# A quarter of the cost of a call; the service has metrics and a timeline of its own.
os.environ.setdefault("FASTMCP_TELEMETRY_MODE", "propagation_only")

import anyio
import anyio.to_thread
import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError as UnknownToolError
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools.base import Tool, ToolResult
from pydantic import BaseModel, PrivateAttr
from pydantic.json_schema import SkipJsonSchema

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError
from codequarry.schemas.tools import ErrorAnswer, to_wire
from codequarry.serving import present
from codequarry.serving.arguments import parse
from codequarry.serving.call import Call, begin_call, current_call, token_client
from codequarry.serving.connector import CONNECTOR_INSTRUCTIONS, CONNECTOR_TOOLS
from codequarry.serving.descriptions import INSTRUCTIONS, SERVER_NAME, TOOLS, Answering, ToolDescription
from codequarry.serving.fetch import error_body
from codequarry.serving.gate import Gate
from codequarry.serving.schema_text import wire_schema

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider

    from codequarry.serving.engine import Engine
    from codequarry.serving.telemetry import Telemetry

logger = logging.getLogger(__name__)


PROFILES: dict[str, tuple[str, tuple[ToolDescription, ...]]] = {
    "full": (INSTRUCTIONS, TOOLS),
    "chatgpt": (CONNECTOR_INSTRUCTIONS, CONNECTOR_TOOLS),
}
"""Instructions and tools of each profile."""


def build_server(engine: Engine, *, version: str, profile: str = "full", auth: AuthProvider | None = None) -> FastMCP:
    """The server for an open engine; what it advertises does not depend on what is indexed.

    version: of the program, as clients see it. profile: one of `PROFILES`. auth: who may call over HTTP; everybody
    when None.
    """
    instructions, listed = PROFILES[profile]
    server = _Server(
        SERVER_NAME, instructions, version=version, auth=auth, mask_error_details=True, strict_input_validation=True
    )
    tools = [_described(tool) for tool in listed]
    for described, tool in zip(listed, tools, strict=True):
        # A busy server must still be able to say so.
        gate = None if described.from_memory else engine.gate
        tool.serve(described.answering(engine), gate, engine, by_token=auth is not None)
        server.add_own(tool)
    # Over HTTP, each modern tools/call looks up the tool's schema to check headers against it; without this hook it
    # runs a whole tools/list for that.
    schemas = {tool.name: tool.parameters for tool in tools}
    server._mcp_server.get_tool_input_schema = schemas.get
    return server


def listed_tools(profile: str = "full") -> list[dict[str, Any]]:
    """The tools as ``tools/list`` gives them; needs no bundle, since nothing in it depends on one."""
    tools = [_described(tool) for tool in PROFILES[profile][1]]
    return [tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


class EngineTool(Tool):
    """A read-only tool: arguments to a typed request, the engine's answer to one text item and the same structure."""

    request: SkipJsonSchema[type[BaseModel]]
    _answering: Answering = PrivateAttr()
    _gate: Gate | None = PrivateAttr()
    _engine: Engine = PrivateAttr()
    _by_token: bool = PrivateAttr(default=False)

    def serve(self, answering: Answering, gate: Gate | None, engine: Engine, *, by_token: bool) -> None:
        """Connect the tool; ``answering`` is called in a worker thread, only while a place at the gate is held.

        gate: None for what answers from memory at once, which is then called where it is.
        by_token: tell clients apart by their bearer tokens: many may share an address, and one may have many.
        """
        self._answering, self._gate, self._engine, self._by_token = answering, gate, engine, by_token

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """One call. Never raises: every failure becomes an error result."""
        try:
            return await self._answered(parse(self.request, arguments))
        except CodequarryError as error:
            return self._failed(error)
        except Exception:
            logger.exception("tool %s failed", self.name)
            return self._failed(_INTERNAL)

    async def _answered(self, request: BaseModel) -> ToolResult:
        if self._gate is None:
            return _result(to_wire(self._answering(request)))
        call = current_call()
        if not call.client:
            # No transport began one: the worker thread has to know the call that a cancellation marks here.
            call = Call()
            begin_call(call)
        if self._by_token and call.client and (token := get_access_token()) is not None:
            call.client = token_client(token.client_id)
        place = call.place or await self._gate.enter(call.client)

        def work() -> ToolResult:
            if not place.start():
                raise CodequarryError("the call was cancelled before it began")
            try:
                with self._engine.lanes.lane():
                    return _result(to_wire(self._answering(request)))
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

    def _failed(self, error: CodequarryError) -> ToolResult:
        telemetry: Telemetry | None = self._engine.telemetry
        if telemetry is not None:
            telemetry.rejected(self.name, error.code)
        return failure(error)


def _described(described: ToolDescription) -> EngineTool:
    return EngineTool(
        name=described.name,
        title=described.title,
        description=described.text,
        parameters=wire_schema(described.request),
        output_schema=wire_schema(described.answer),
        annotations=mcp_types.ToolAnnotations(
            title=described.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        request=described.request,
    )


class _Server(FastMCP):
    """Calls its own tools straight away, and gives a call of an unknown one the same error shape as every other error.

    FastMCP would ask every provider, transform and middleware for a tool that is known, which takes as long as the rest
    of a call.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._own: dict[str, EngineTool] = {}

    def add_own(self, tool: EngineTool) -> None:
        """Add a tool that is neither changed nor hidden later."""
        self._own[tool.name] = tool
        self.add_tool(tool)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> ToolResult:
        """One call, by the protocol or in process."""
        if (tool := self._own.get(name)) is not None:
            return await tool.run(arguments or {})
        try:
            return await super().call_tool(name, arguments, **options)
        except UnknownToolError:
            names = present.sentence_list(tuple(self._own))
            return failure(InvalidArgumentError("there is no such tool", suggestion=f"use one of {names}"))


_INTERNAL = CodequarryError(
    "the server failed to answer", suggestion="try another query; the server's log holds the details"
)


def failure(error: CodequarryError) -> ToolResult:
    """An error as a tool result: ``isError``, and the error both as text and as structured content."""
    return _result(to_wire(ErrorAnswer(error=error_body(error))), is_error=True)


def _result(payload: dict[str, object], *, is_error: bool = False) -> ToolResult:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return ToolResult([mcp_types.TextContent(type="text", text=text)], payload, is_error=is_error)
