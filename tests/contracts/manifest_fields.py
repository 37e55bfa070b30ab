"""The manifest field by field, as docs/BUNDLE.md lists it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel

from codequarry.schemas.bundle.manifest import Manifest

CHECKSUM = "| `checksum` | sha256 of the file without this key. |"


def rows(model: type[BaseModel] = Manifest, prefix: str = "") -> Iterator[str]:
    """``| `sources[].commit` | meaning |`` of every field, depth first.

    A record in a list has [] behind its name, and one in a table of names `.*`.
    """
    for name, field in model.model_fields.items():
        assert field.description, f"{model.__name__}.{name} has no description"
        inner = [each for each in (field.annotation, *get_args(field.annotation)) if _is_model(each)]
        kind = str(field.annotation) if inner and inner[0] is not field.annotation else ""
        many = "[]" if "tuple" in kind else ".*" if "dict" in kind else ""
        yield f"| `{prefix}{name}{many}` | {field.description} |"
        for each in inner:
            yield from rows(each, f"{prefix}{name}{many}.")


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


if __name__ == "__main__":
    import sys

    sys.stdout.write("\n".join([*rows(), CHECKSUM]) + "\n")
