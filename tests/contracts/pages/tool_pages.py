"""docs/TOOLS.md, generated from the models that also make the schemas: `python -m tests.contracts.pages.tool_pages`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codequarry.serving.http.app import PATHS
from codequarry.serving.server.mcp import listed_tools
from codequarry.serving.server.profiles import PROFILES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "TOOLS.md"

INTRODUCTION = """\
# Tools

Generated from the models that make the schemas (`python -m tests.contracts.pages.tool_pages`) and compared by a test.

Every tool is read-only and idempotent. A call that fails has `isError: true` and one object `error` with `code`,
`message`, `suggestion` and `retryable`; codes are `INVALID_ARGUMENT`, `NOT_FOUND`, `BUSY`, `DEADLINE`, `UNAVAILABLE`
and `INTERNAL`. Answers are `structuredContent` and one text item: a text for models to read, or its JSON where a tool
has no text of its own. Fields that were never set stay away. Lines in structured fields are 0-based, in texts, titles,
URLs and references 1-based.

Files are resources, too: `resources/read` takes the `repo://` URLs of answers, with `#L10-L20` for lines.
The resource `ui://codequarry/page` is the page for people as an app (MCP Apps), which clients may show for `search`.
"""
TITLES = {
    "default": "Default profile: `{path}`, `codequarry serve --stdio`",
    "full": "Full profile: `{path}`, `codequarry serve --stdio --profile full`",
    "chatgpt": "ChatGPT connectors: `{path}`, `codequarry serve --stdio --profile chatgpt`",
}


BRIEF = """\
Models pay for the list in every conversation, so this one is short, with the usual arguments alone:
{names}.
It has {chars:,} characters without output schemas, which models do not see. All that the full profile has is answered
here as well.
"""


def listed_chars(profile: str) -> int:
    """Characters of names, descriptions and input schemas, as clients give them to a model."""
    listed = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in listed_tools(profile)]
    return len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False))


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for profile, path in PATHS.items():
        parts.append(f"## {TITLES[profile].format(path=path)}\n")
        if PROFILES[profile].brief:
            names = ", ".join(f"`{tool['name']}`" for tool in listed_tools(profile))
            parts.append(BRIEF.format(names=names, chars=listed_chars(profile)))
            continue
        for tool in listed_tools(profile):
            parts.append("\n".join(_tool(tool)))
    return "\n".join(parts)


def _tool(tool: dict[str, Any]) -> Iterator[str]:
    yield f"### {tool['name']}\n"
    text, _, example = tool["description"].partition("Example: ")
    yield text.strip() + "\n"
    yield f"```json\n{example}\n```\n"
    inputs = list(_fields(tool["inputSchema"]))
    if inputs:
        yield "| argument | type | meaning |\n|---|---|---|"
        yield from inputs
        yield ""
    yield "| answer | type | meaning |\n|---|---|---|"
    yield from _fields(tool["outputSchema"])
    yield ""


def _fields(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        must = ", required" if not prefix and name in required else ""
        meaning = field["description"].replace("|", "\\|")
        yield f"| `{prefix}{name}` | {_type(field)}{must} | {meaning} |"
        inner = field["items"] if field["type"] == "array" else field
        keyed = field.get("additionalProperties")
        if "properties" in inner:
            yield from _fields(inner, f"{prefix}{name}{'[]' if inner is not field else ''}.")
        elif isinstance(keyed, dict) and "properties" in keyed:
            yield from _fields(keyed, f"{prefix}{name}.*.")


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    keyed = field.get("additionalProperties")
    if isinstance(keyed, dict):
        return f"object of {_type(keyed)}"
    default = field.get("default")
    # What an empty list or object means, its fields say.
    shown = isinstance(default, bool | int | float) or (isinstance(default, str) and default)
    return field["type"] + (f", default `{str(default).lower()}`" if shown else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
