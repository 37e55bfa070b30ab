"""Outputs of the notebooks: `python -m tests.notebooks.outputs FOLDER` writes them into notebooks/.

FOLDER lies below a ``dagster_project.toml`` whose bundle is of this repository alone, in more than one version.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
_EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
made = nbformat.read(sys.argv[1], 4)
options = dict(timeout=600, startup_timeout=600, resources={"metadata": {"path": sys.argv[2]}})
NotebookClient(made, kernel_name="python3", **options).execute()
nbformat.write(made, sys.argv[3])
"""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def execute(file: Path, folder: Path, own: Path) -> dict[str, Any]:
    """Run a notebook in a process of its own.

    Args:
        file: The notebook.
        folder: Folder in which it runs.
        own: Folder of what Jupyter writes.

    Returns:
        The notebook with its outputs.
    """
    written = own / file.name
    places = {name: str(own) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "HOME")}
    done = subprocess.run(
        [sys.executable, "-c", _EXECUTE, str(file), str(folder), str(written)],
        env={**os.environ, **places}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(written.read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def tidy(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook without the times of its run, and with its pictures in fewer bytes."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    for cell in code_cells(notebook):
        for output in cell["outputs"]:
            if picture := output.get("data", {}).get("image/png"):
                output["data"]["image/png"] = base64.b64encode(packed(base64.b64decode(picture))).decode()
    notebook["metadata"]["language_info"] = {"name": "python"}
    return notebook


def packed(png: bytes) -> bytes:
    """The same picture, its pixels compressed as far as zlib can."""
    made, pixels, place = [_SIGNATURE], b"", len(_SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += 12 + length
        if kind == b"IDAT":
            pixels += body
            continue
        if kind == b"IEND":
            made.append(_chunk(b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))
        made.append(_chunk(kind, body))
    return b"".join(made)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as own:
            made = tidy(execute(notebook, Path(sys.argv[1]).resolve(), Path(own)))
        notebook.write_text(json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
