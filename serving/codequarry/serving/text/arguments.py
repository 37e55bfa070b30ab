"""Conversion of tool arguments to typed requests; errors name the argument and never repeat its value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from codequarry.schemas.errors import InvalidArgumentError

RequestT = TypeVar("RequestT", bound=BaseModel)

_EXPECTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is required",
    "string_type": lambda _: "must be a string",
    "int_type": lambda _: "must be an integer",
    "int_from_float": lambda _: "must be an integer",
    "int_parsing_size": lambda _: "must be an integer of ordinary size",
    "float_type": lambda _: "must be a number",
    "finite_number": lambda _: "must be a finite number",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "less_than_equal": lambda context: f"must be at most {context['le']:g}",
    "dict_type": lambda _: "must be an object",
    "bool_type": lambda _: "must be true or false",
    "list_type": lambda _: "must be a list",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "literal_error": lambda context: f"must be one of {context['expected']}",
    "too_long": lambda context: f"must hold at most {context['max_length']} entries",
    "extra_forbidden": lambda _: "holds a name that is not an argument",
}

_MOST_NAMED = 5
_SAME_WORD = 0.75
_NARROWING = frozenset({"filters", "scope_id", "languages", "include", "exclude", "repos"})
"""Arguments that narrow what is searched."""
_OTHER_WORDS = {
    **dict.fromkeys(("path", "paths", "glob", "globs", "file", "files", "folder", "directory"), "include"),
    **dict.fromkeys(("repository", "repositories"), "repos"),
    **dict.fromkeys(("language", "languages", "file_type"), "lang"),
    **dict.fromkeys(("ignore", "exclude_paths"), "exclude"),
}
"""Filter by other words for it."""


def parse(model: type[RequestT], arguments: Mapping[str, Any]) -> RequestT:
    """Read a request from JSON arguments; types are not converted.

    Args:
        model: Class of the request.
        arguments: JSON arguments.

    Returns:
        The request.

    Raises:
        InvalidArgumentError: Names every argument that does not fit, e.g. ``top_k: must be an integer``.
    """
    try:
        return model.model_validate(_whole_numbers(arguments), strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise InvalidArgumentError(
            "; ".join(dict.fromkeys(_sentence(model, problem) for problem in problems[:5])),
            suggestion=_suggestion(model, problems),
        ) from None


def parse_call(model: type[RequestT], arguments: Mapping[str, Any]) -> tuple[RequestT, list[str]]:
    """Read a request as `parse` does, but ignore arguments that nobody knows; models invent them.

    An argument that looks like a filter is not ignored: the answer would come from places that were to be left out.

    Args:
        model: Class of the request.
        arguments: JSON arguments.

    Returns:
        The request, and a note for the answer that names what was ignored.

    Raises:
        InvalidArgumentError: As `parse`.
    """
    known = {name for field in model.model_fields for name in _argument_names(model, field)}
    ignored = [name for name in arguments if name not in known and not _filter_meant(model, name)]
    request = parse(model, {name: value for name, value in arguments.items() if name not in ignored})
    shown = [f"{name[:64]!r}" for name in ignored[:_MOST_NAMED] if name.isidentifier() and name.isascii()]
    if len(shown) < len(ignored):
        shown.append(f"{len(ignored) - len(shown)} more")
    return request, [f"unknown arguments ignored: {', '.join(shown)}"] if ignored else []


def checked_text(name: str, text: str, *, longest: int, suggestion: str) -> str:
    """Check a text argument that is searched for.

    Args:
        name: Name of the argument.
        text: Its value.
        longest: Most characters.
        suggestion: Advice how to make it shorter.

    Returns:
        The text.

    Raises:
        InvalidArgumentError: The text is too long, or is not valid Unicode.
    """
    if len(text) > longest:
        raise InvalidArgumentError(f"{name}: {len(text)} characters, expected at most {longest}", suggestion=suggestion)
    if "\0" in text or any(0xD800 <= ord(character) < 0xE000 for character in text):
        raise InvalidArgumentError(
            f"{name}: holds NUL or half a surrogate pair, expected text", suggestion="send valid Unicode without NUL"
        )
    return text


def clamp_argument(name: str, value: int, lowest: int, highest: int) -> tuple[int, list[str]]:
    """Return the value, moved into its range, and a note when it was outside.

    >>> clamp_argument("top_k", 99, 1, 50)
    (50, ['top_k clamped to 50, the range is 1 to 50'])
    """
    inside = min(max(value, lowest), highest)
    return inside, [] if inside == value else [f"{name} clamped to {inside}, the range is {lowest} to {highest}"]


def _whole_numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert floats like 12.0 to integers, because JSON Schema calls them integers."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in arguments.items()
    }


def _sentence(model: type[BaseModel], problem: ErrorDetails) -> str:
    expected = _EXPECTED.get(problem["type"], lambda _: "has a value that does not fit")(problem.get("ctx", {}))
    location = list(problem["loc"])
    if problem["type"] == "extra_forbidden":
        location.pop()
    named = _field_names(model, location)
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in named).lstrip(".")
    return f"{where or 'arguments'}: {expected}"


def _field_names(model: type[BaseModel], location: list[int | str]) -> list[int | str]:
    """Return the part of a location that names fields; keys of a mapping are chosen by the caller."""
    inner: type[BaseModel] | None = model
    for place, part in enumerate(location):
        if isinstance(part, int):
            continue
        if inner is None or part not in inner.model_fields:
            return location[:place]
        annotation = inner.model_fields[part].annotation
        inner = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return location


def _suggestion(model: type[BaseModel], problems: list[ErrorDetails]) -> str:
    """Return the nearest valid name or value for the first unknown one, or else the list of arguments."""
    for problem in problems:
        if problem["type"] == "literal_error" and isinstance(problem["input"], str):
            choices = re.findall(r"'(\w+)'", problem.get("ctx", {}).get("expected", ""))
            near = difflib.get_close_matches(problem["input"][:64].lower(), choices, n=1)
            if near:
                return f"did you mean {near[0]!r}?"
        if problem["type"] != "extra_forbidden":
            continue
        if len(problem["loc"]) == 1 and (meant := _filter_meant(model, str(problem["loc"][0]))):
            return f"did you mean {meant!r}?"
        fields = _fields(model, problem["loc"][:-1])
        near = difflib.get_close_matches(str(problem["loc"][-1])[:64], fields, n=1, cutoff=0.5)
        return "".join(f"did you mean {name!r}? " for name in near) + f"known are {', '.join(fields)}"
    return f"the arguments are {', '.join(model.model_fields)}; see the tool's input schema"


def _argument_names(model: type[BaseModel], field: str) -> list[str]:
    """Return the names under which an argument may be sent."""
    alias = model.model_fields[field].validation_alias
    return [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [field]


def _filter_meant(model: type[BaseModel], name: str) -> str:
    """Return the filter that an unknown argument is likely to mean; "" when it means none."""
    own = [field for field in model.model_fields if field in _NARROWING]
    nested = {field: f"filters.{field}" for field in _fields(model, ("filters",))} if "filters" in own else {}
    filters = {**{field: field for field in own}, **nested}
    if "languages" in own:
        filters["lang"] = "languages"
    near = difflib.get_close_matches(name[:64], filters, n=1, cutoff=_SAME_WORD)
    return filters.get(_OTHER_WORDS.get(name.lower(), ""), "") or (filters[near[0]] if near else "")


def _fields(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields of the object at a location."""
    for part in location:
        nested = model.model_fields[str(part)].annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            model = nested
    return list(model.model_fields)
