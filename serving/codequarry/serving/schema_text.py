"""JSON schemas as clients get them: self-contained, without the titles pydantic makes of names."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def wire_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Schema of a tool's arguments or structured content: a plain object at the root, nothing referred to.

    Fields with a default are optional both ways: answers leave out what was never set.
    """
    schema = model.model_json_schema(mode="validation")
    definitions = schema.pop("$defs", {})
    # Written for readers of the code; the tool has a description of its own.
    schema.pop("description", None)
    return _inlined(schema, definitions)


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """The node with references replaced by what they refer to; some clients read no ``$ref``."""
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
