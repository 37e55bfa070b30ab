"""The service as `codequarry serve` builds it, with the fixture tools that conformance suites ask for mounted on it.

`python -m tests.conformance.server` prints its URL and serves until it is ended.
"""

from __future__ import annotations

import base64
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Annotated

import mcp_types
from fastmcp import FastMCP
from fastmcp.tools import ToolResult
from pydantic import Field

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service, serve_http
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import COMMITS, PIECES


def add_fixtures(server: FastMCP) -> None:
    """The tools that `@modelcontextprotocol/conformance` calls by name."""

    @server.tool
    def test_simple_text() -> ToolResult:
        """Answers with text."""
        return ToolResult([text("This is a simple text response for testing.")])

    @server.tool
    def test_image_content() -> ToolResult:
        """Answers with an image."""
        return ToolResult([image()])

    @server.tool
    def test_audio_content() -> ToolResult:
        """Answers with a sound."""
        return ToolResult([mcp_types.AudioContent(type="audio", data=encoded(wave()), mime_type="audio/wav")])

    @server.tool
    def test_embedded_resource() -> ToolResult:
        """Answers with a resource."""
        return ToolResult([embedded("test://embedded-resource", "This is an embedded resource content.")])

    @server.tool
    def test_multiple_content_types() -> ToolResult:
        """Answers with text, an image and a resource."""
        return ToolResult(
            [
                text("Multiple content types test:"),
                image(),
                embedded("test://mixed-content-resource", '{"test":"data"}'),
            ]
        )

    @server.tool
    def test_error_handling() -> ToolResult:
        """Fails."""
        return ToolResult([text("This tool intentionally returns an error for testing")], is_error=True)

    @server.tool
    def test_custom_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> ToolResult:
        """Takes an argument that must come as a header as well."""
        return ToolResult([text(region)])

    # Ours are looked up without a listing (see `build_server`), and so must these be, or their headers go unchecked.
    ours, header = (
        server._mcp_server.get_tool_input_schema,
        {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    )
    assert ours is not None
    server._mcp_server.get_tool_input_schema = lambda name: header if name == "test_custom_header" else ours(name)


def text(value: str) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=value)


def image() -> mcp_types.ImageContent:
    return mcp_types.ImageContent(type="image", data=encoded(pixel()), mime_type="image/png")


def embedded(uri: str, value: str) -> mcp_types.EmbeddedResource:
    return mcp_types.EmbeddedResource(
        type="resource",
        resource=mcp_types.TextResourceContents(uri=uri, mime_type="text/plain", text=value),
    )


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def pixel() -> bytes:
    """A PNG of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def wave() -> bytes:
    """A WAV of one silent sample."""
    samples = b"\0\0"
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def main() -> None:
    """Serve the small repository of serving's tests on a free port."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_bundle(root, PIECES, commits=COMMITS)
        engine = Engine.open(root, ServingSettings(port=0, max_concurrency=8))
        service = Service(engine, "0", prepared=add_fixtures)
        try:
            serve_http(service, engine.settings, lambda url: (sys.stdout.write(f"{url}\n"), sys.stdout.flush()))
        finally:
            engine.close()


if __name__ == "__main__":
    main()
