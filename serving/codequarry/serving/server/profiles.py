"""Tools as ``tools/list`` gives them: profiles, and the schemas of arguments and answers.

A model pays for the list in every conversation. So the default profile has the few tools that an agent needs, with the
arguments that it needs; the rest is answered all the same, and listed by the full profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from codequarry.serving.server.chatgpt import CONNECTOR_INSTRUCTIONS, CONNECTOR_TOOLS
from codequarry.serving.server.descriptions import DEFAULT_TOOLS, INSTRUCTIONS, TOOLS, ToolDescription

DEFAULT_PROFILE = "default"
_WITH_OUTPUT_SCHEMA = ("search", "fetch")
"""Tools whose answers the default profile describes; models do not see these schemas."""
_EXPLAINS_FILTERS = "search"
"""The tool whose filters the default profile describes; they are the same in all."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Tools as one kind of client gets them."""

    instructions: str
    tools: tuple[ToolDescription, ...]
    """Tools that are answered."""
    listed: tuple[ToolDescription, ...]
    """Tools that are listed."""
    brief: bool = False
    """List the usual arguments alone."""


PROFILES: dict[str, Profile] = {
    DEFAULT_PROFILE: Profile(INSTRUCTIONS, TOOLS, DEFAULT_TOOLS, brief=True),
    "full": Profile(INSTRUCTIONS, TOOLS, TOOLS),
    "chatgpt": Profile(CONNECTOR_INSTRUCTIONS, CONNECTOR_TOOLS, CONNECTOR_TOOLS),
}
"""Profiles by name."""


def argument_schema(described: ToolDescription, *, brief: bool = False) -> dict[str, Any]:
    """Return the schema of a tool's arguments.

    Args:
        described: The tool.
        brief: Leave out its rarely needed arguments, which are taken all the same, and empty defaults.

    Returns:
        JSON Schema.
    """
    schema = wire_schema(described.request)
    if not brief:
        return schema
    for name in described.rare:
        inner, names = schema, name.split(".")
        for part in names[:-1]:
            inner = inner["properties"][part]
        del inner["properties"][names[-1]]
    if described.name != _EXPLAINS_FILTERS and "filters" in schema["properties"]:
        for field in schema["properties"]["filters"]["properties"].values():
            field.pop("description", None)
    return _without_empty_defaults(schema)


def answer_schema(described: ToolDescription, *, brief: bool = False) -> dict[str, Any] | None:
    """Return the schema of a tool's structured content; None where the brief list has none."""
    return None if brief and described.name not in _WITH_OUTPUT_SCHEMA else wire_schema(described.answer)


def wire_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments or structured content: a plain object without references and titles.

    Fields with a default are optional both ways: answers leave out fields that were never set.
    """
    schema = model.model_json_schema(mode="validation")
    definitions = schema.pop("$defs", {})
    # Written for readers of the code; the tool has a description of its own.
    schema.pop("description", None)
    return _inlined(schema, definitions)


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """Replace references by their targets; some clients do not read ``$ref``."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _inlined(property_, definitions) for name, property_ in value.items()}
        elif key == "title" and isinstance(value, str):
            continue
        else:
            plain[key] = _inlined(value, definitions)
    return plain


_EMPTY: Sequence[object] = ([], {}, "", None, -1)
_OF_PROGRAMS = ("additionalProperties", "maxItems")
"""Keywords that say nothing to a model: the server checks both, and says what does not fit."""


def _without_empty_defaults(node: Any) -> Any:
    """Return a schema without defaults that say nothing, and without keywords for programs."""
    if isinstance(node, list):
        return [_without_empty_defaults(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _without_empty_defaults(each) for name, each in value.items()}
        if key == "properties"
        else _without_empty_defaults(value)
        for key, value in node.items()
        if key not in _OF_PROGRAMS and not (key == "default" and _says_nothing(value))
    }


def _says_nothing(value: Any) -> bool:
    return value in _EMPTY or (isinstance(value, dict) and all(map(_says_nothing, value.values())))
