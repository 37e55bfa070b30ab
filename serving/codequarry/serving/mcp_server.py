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

import anyio
import anyio.to_thread
import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError as UnknownToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool, ToolResult
from pydantic import BaseModel, PrivateAttr
from pydantic.json_schema import SkipJsonSchema

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError
from codequarry.schemas.tools import ErrorAnswer, to_wire
from codequarry.serving import present
from codequarry.serving.arguments import parse
from codequarry.serving.descriptions import HEALTHZ, INSTRUCTIONS, SERVER_NAME, TOOLS, Answering, ToolDescription
from codequarry.serving.fetch import error_body
from codequarry.serving.gate import Gate
from codequarry.serving.schema_text import wire_schema

if TYPE_CHECKING:
    from codequarry.serving.engine import Engine

logger = logging.getLogger(__name__)

_HEALTH_PLACES = 8


def build_server(engine: Engine, *, version: str) -> FastMCP:
    """The server for an open engine; what it advertises does not depend on what is indexed.

    version: of the program, as clients see it.
    """
    server = FastMCP(
        SERVER_NAME,
        INSTRUCTIONS,
        version=version,
        mask_error_details=True,
        strict_input_validation=True,
        middleware=[_UnknownTool()],
    )
    # A busy server must still be able to say so.
    gates = {HEALTHZ.name: Gate(_HEALTH_PLACES)}
    tools = [_described(tool) for tool in TOOLS]
    for described, tool in zip(TOOLS, tools, strict=True):
        tool.serve(described.answering(engine), gates.get(tool.name, engine.gate))
        server.add_tool(tool)
    # Over HTTP, each modern tools/call looks up the tool's schema to check headers against it; without this hook it
    # runs a whole tools/list for that.
    schemas = {tool.name: tool.parameters for tool in tools}
    server._mcp_server.get_tool_input_schema = schemas.get
    return server


def listed_tools() -> list[dict[str, Any]]:
    """The tools as ``tools/list`` gives them; needs no bundle, since nothing in it depends on one."""
    return [_described(tool).to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True) for tool in TOOLS]


class EngineTool(Tool):
    """A read-only tool: arguments to a typed request, the engine's answer to one text item and the same structure."""

    request: SkipJsonSchema[type[BaseModel]]
    _answering: Answering = PrivateAttr()
    _gate: Gate = PrivateAttr()

    def serve(self, answering: Answering, gate: Gate) -> None:
        """Connect the tool; ``answering`` is called in a worker thread, only while a place at the gate is held."""
        self._answering, self._gate = answering, gate

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """One call. Never raises: every failure becomes an error result."""
        try:
            request = parse(self.request, arguments)
            async with self._gate.place_async():
                # The gate is the one limit on threads, so anyio's own shared limiter is bypassed.
                answer = await anyio.to_thread.run_sync(self._answering, request, limiter=anyio.CapacityLimiter(1))
        except CodequarryError as error:
            return failure(error)
        except Exception:
            logger.exception("tool %s failed", self.name)
            return failure(_INTERNAL)
        return _result(to_wire(answer))


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


class _UnknownTool(Middleware):
    """Gives a call of an unknown tool the same error shape as every other error."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        try:
            return await call_next(context)
        except UnknownToolError:
            names = present.sentence_list(tool.name for tool in TOOLS)
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
