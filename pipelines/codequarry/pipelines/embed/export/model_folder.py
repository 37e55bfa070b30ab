"""Files that the folders of models have in common, whatever the models are for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from codequarry.schemas.errors import InvalidArgumentError

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_LICENSE = re.compile(r"^license: *['\"]?([\w.+-]+)", re.MULTILINE)
_PAGES = {"splade": "docs/SPLADE.md", "warp": "docs/WARP.md"}


def graph_in(folder: Path) -> Path | None:
    """Return the ONNX graph of a folder, or None."""
    return next((folder / place for place in _GRAPHS if (folder / place).is_file()), None)


def license_in(folder: Path) -> str:
    """Return the license that the model card of a folder states; "unknown" when it states none."""
    readme = folder / "README.md"
    stated = _LICENSE.search(readme.read_text(encoding="utf-8", errors="replace")) if readme.is_file() else None
    return stated[1] if stated else "unknown"


def read_json(file: Path, section: str) -> Any:
    """Return the contents of a JSON file; an empty object when it is missing.

    Args:
        file: Path of the file.
        section: Section of the settings that names the model.

    Returns:
        Its value.

    Raises:
        InvalidArgumentError: The file is not JSON.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise unusable(file, "no JSON", "the file as its library wrote it", section) from error


def unusable(place: Path, found: str, expected: str, section: str) -> InvalidArgumentError:
    """Return the error for a model that cannot be used.

    Args:
        place: File or folder at fault.
        found: Its content.
        expected: Content that can be used.
        section: Section of the settings that names the model.

    Returns:
        The error, to be raised.
    """
    return InvalidArgumentError(
        f"{place}: {found}, expected {expected}",
        suggestion=f"correct [{section}] model; {_PAGES[section]} says what it takes",
    )
