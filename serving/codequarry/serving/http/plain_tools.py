"""Plain JSON beside the protocol: ``POST <path>/tools/list`` and ``POST <path>/tools/<name>``, for scripts without MCP.

The body of a call is the tool's arguments, the answer its structured content. Errors have the same shape as over MCP,
and a status that tells their kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError
from codequarry.serving.catalog import present
from codequarry.serving.server.mcp import EngineTool, failure, listed_tools

if TYPE_CHECKING:
    from fastmcp import FastMCP

STATUSES = {
    "INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "BUSY": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE": 504,
}  # fmt: skip
"""Status of an answer by the code of its error."""


def add_plain_tools(server: FastMCP, path: str, tools: dict[str, EngineTool], *, authenticated: bool) -> None:
    """Add the routes.

    Args:
        server: Server whose application gets them.
        path: Path of the protocol.
        tools: Tools by name.
        authenticated: Callers need a token.
    """
    listed = listed_tools()

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
