"""Packages of a registry, made here."""

from __future__ import annotations

import zipfile
from pathlib import Path


def wheel(path: Path, contents: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path
