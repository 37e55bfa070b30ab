"""Settings that a file lying in the current folder may not make until the user trusts that folder.

Each field of free text or paths says in its annotation what it can reach: ``Annotated[str, Reach.ADDRESS]``. A field
without such an annotation counts as the most dangerous kind, so that a new setting cannot be forgotten. A contract test
names such fields.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from codequarry.schemas.git_urls import without_credentials

_LONGEST_SHOWN = 200


class Reach(Enum):
    """Kinds of things that a setting can reach."""

    WORDS = "words"
    """Nothing: patterns, names, prefixes."""
    PLACE = "place"
    """A path; free inside of the settings file's folder."""
    ADDRESS = "address"
    """Address that something is sent to or fetched from."""
    SECRET = "secret"
    """A credential, or the name of the environment variable that holds one."""
    MODEL = "model"
    """A model that is loaded, or fetched from a hub."""
    CODE = "code"
    """Code that comes from elsewhere runs."""
    ACCESS = "access"
    """Callers that may reach the service."""


@dataclass(frozen=True, slots=True)
class Harmless:
    """Values of a field that reach nothing."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A thing that a settings file asks for and that only a trusted file may have."""

    key: str
    """``section.key``, with the place in a list behind it."""
    reach: Reach
    value: str
    """Its form for people: never a credential."""

    def __str__(self) -> str:
        return f"{self.key} = {self.value}"


def reach_of(field: FieldInfo) -> Reach | None:
    """Return what a field reaches; None when it does not say, though it takes text."""
    for each in field.metadata:
        if isinstance(each, Reach):
            return each
    return None if takes_text(field.annotation) else Reach.WORDS


def takes_text(annotation: Any) -> bool:
    """Tell whether any text or path fits an annotation.

    >>> takes_text(tuple[Path, ...]), takes_text(str | None), takes_text(int)
    (True, True, False)
    """
    return annotation in (str, Path, Any) or any(takes_text(inner) for inner in get_args(annotation) if _is_type(inner))


def _is_type(inner: Any) -> bool:
    return not isinstance(inner, str | int | type(Ellipsis))  # the members of a Literal are values


def privileged(model: type[BaseModel], data: Mapping[str, Any], base: Path) -> list[Request]:
    """Return what the data of a settings file asks for beyond its folder.

    Args:
        model: Model of the data, ``Settings``.
        data: Data as TOML has it, already validated.
        base: Resolved folder of the file.

    Returns:
        One request for each such value.
    """
    return list(_requests(model, data, base, ""))


def _requests(model: type[BaseModel], data: Mapping[str, Any], base: Path, prefix: str) -> Iterator[Request]:
    for name, value in data.items():
        field = model.model_fields[name]
        key = f"{prefix}{name}"
        inner = _model_of(field.annotation)
        if inner is not None:
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            for place, item in enumerate(items):
                yield from _requests(inner, item, base, f"{key}[{place}]." if isinstance(value, list) else f"{key}.")
            continue
        reach = reach_of(field) or Reach.CODE
        harmless = {"", False, *_harmless(field)}
        if isinstance(value, dict):  # a table whose keys are names
            value = [f"{own} = {each}" for own, each in cast("dict[str, Any]", value).items()]
        for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if item not in harmless and _reaches_out(reach, item, base):
                yield Request(key, reach, _mask_value(field, reach, item))


def _harmless(field: FieldInfo) -> tuple[str, ...]:
    """Return the values that reach nothing; the text of None is a name like any other, and no default."""
    default = (str(field.default),) if isinstance(field.default, str | Path) else ()
    return next((each.values for each in field.metadata if isinstance(each, Harmless)), ()) + default


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_of, filter(_is_type, get_args(annotation)))), None)


def _reaches_out(reach: Reach, value: Any, base: Path) -> bool:
    if reach is not Reach.PLACE:
        return reach is not Reach.WORDS
    if "://" in str(value):  # a bundle root in object storage
        return True
    # Links are followed here, as whoever uses the path will: one that is committed leads where its author wants.
    resolved = os.path.realpath(base / os.path.expanduser(str(value)))
    return not is_inside(Path(resolved), Path(os.path.realpath(base)))


def is_inside(path: Path, folder: Path) -> bool:
    """Tell whether a resolved path is a resolved folder or lies in it."""
    return path == folder or folder in path.parents


def _mask_value(field: FieldInfo, reach: Reach, value: Any) -> str:
    if reach is Reach.SECRET:
        return "…"
    text = str(value)
    if not field.repr:  # the path of a webhook is its password
        scheme, _, rest = text.partition("://")
        text = f"{scheme}://{rest.partition('/')[0]}/…"
    return ascii(without_credentials(text)[:_LONGEST_SHOWN])
