"""Program that executes a notebook: ``python -m codequarry.pipelines.publish.notebook.execute NOTEBOOK MADE PROBLEM``.

It is a process of its own because nbclient takes over the signals of its process, by which a run of Dagster ends.
Its kernel listens on sockets of a private folder: over TCP every user of the machine could read what it shows.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

_LONGEST_MESSAGE = 400
_STARTUP_S = 300


def execute(notebook: Path, made: Path) -> str:
    """Execute every cell of a notebook in the current folder, with the Python that runs this.

    What Jupyter writes goes into the folders of its environment variables.

    Args:
        notebook: The notebook.
        made: File for the notebook with its outputs.

    Returns:
        Reason of a failure; empty for success.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    try:
        held: Any = nbformat.read(notebook, as_version=4)
    except (nbformat.ValidationError, OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        # Of a file that is none, the reader checks neither types nor keys.
        return f"cannot be read as a notebook: {_one_line(error)}"
    code = [cell for cell in held.cells if cell.cell_type == "code"]
    for cell in code:
        cell.outputs, cell.execution_count = [], None
    started: list[Any] = []
    kernel = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),  # then there is one kernel: that of this Python
        transport="ipc",
        connection_file=os.path.join(os.environ["JUPYTER_RUNTIME_DIR"], "kernel.json"),
    )
    client = NotebookClient(
        held,
        km=kernel,
        timeout=None,
        startup_timeout=_STARTUP_S,
        resources={"metadata": {"path": str(Path.cwd())}},
        on_cell_execute=lambda cell, cell_index: started.append(cell),
    )
    try:
        asyncio.run(client.async_execute(cleanup_kc=True))
    except CellExecutionError as error:
        return f"failed in code cell {len(started)} of {len(code)}: {_one_line(f'{error.ename}: {error.evalue}')}"
    except DeadKernelError:
        return f"ended in code cell {len(started)} of {len(code)}: its kernel died, perhaps for want of memory"
    nbformat.write(held, made)
    return ""


def _one_line(what: object) -> str:
    text = " ".join(str(what).split())
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


if __name__ == "__main__":
    if problem := execute(Path(sys.argv[1]), Path(sys.argv[2])):
        Path(sys.argv[3]).write_text(problem, encoding="utf-8")
