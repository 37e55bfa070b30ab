"""What the serving process may load, and when."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import codequarry.serving

SOURCES = sorted(Path(codequarry.serving.__path__[0]).rglob("*.py"))


def run_isolated(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)


def test_serving_imports_without_the_pipeline_and_its_libraries() -> None:
    """Prevents the regression in which a reader's install drags in the build extra, gigabytes and seconds of it."""
    done = run_isolated(
        """
        import importlib, pkgutil, sys
        for blocked in ("dagster", "torch", "transformers", "sentence_transformers", "great_expectations",
                        "tree_sitter", "onnx", "safetensors", "pathspec", "codequarry.pipelines", "codequarry.assets"):
            sys.modules[blocked] = None
        import codequarry.serving
        for module in pkgutil.walk_packages(codequarry.serving.__path__, "codequarry.serving."):
            importlib.import_module(module.name)
        print("imported")
        """
    )
    assert done.stdout.strip() == "imported", done.stderr


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        (
            "codequarry.pipelines.cli.root as cli; cli.build_app()",
            "fastmcp mcp duckdb faiss tantivy onnxruntime numpy pyarrow",
        ),
        ("codequarry.serving.engine.engine", "fastmcp mcp duckdb faiss tantivy onnxruntime pyarrow typer rich"),
        ("codequarry.serving.server.mcp", "duckdb faiss tantivy onnxruntime pyarrow typer.main"),
    ],
)
def test_a_command_loads_nothing_heavy_before_it_needs_it(program: str, heavy: str) -> None:
    done = run_isolated(
        f"""
        import sys
        import {program}
        print([name for name in {heavy.split()!r} if name in sys.modules])
        """
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_imports_of_files_are_read_without_what_prepares_for_many_files(bundle_root: Path) -> None:
    """Prevents the regression in which a third of `codequarry references` was the loading of pyarrow.dataset."""
    done = run_isolated(
        f"""
        import sys
        from pathlib import Path
        from codequarry.serving.version.open import Bundle
        bundle = Bundle.open_current(Path({str(bundle_root)!r}), channels=())
        bundle.imports
        bundle.close()
        print("pyarrow.parquet" in sys.modules, "pyarrow.dataset" in sys.modules)
        """
    )
    assert done.stdout.strip() == "True False", done.stdout + done.stderr


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_row_12_no_pickle_no_subprocess_no_network_no_print(source: Path) -> None:
    """A bundle is untrusted input and stdout belongs to the transport."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
    }
    forbidden = {
        "pickle",
        "joblib",
        "torch",
        "subprocess",
        "urllib3",
        "requests",
        "httpx",
        "httpx2",
        "shelve",
        "marshal",
    }
    if source.name == "client.py":  # of model servers, where the settings name one
        forbidden -= {"httpx2"}
    assert not imported & forbidden
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"print", "eval", "exec"}


def test_row_12_opening_and_answering_parses_no_python(bundle_root: Path) -> None:
    """CPython 3.11 fails with SystemError where two threads have syntax trees built at a time (gh-106905)."""
    done = run_isolated(
        f"""
        import asyncio, sys, threading, traceback
        from pathlib import Path
        from codequarry.schemas.settings.load import ServingSettings
        from codequarry.serving.engine.engine import Engine
        from codequarry.serving.server.mcp import build_server

        engine = Engine.open(Path({str(bundle_root)!r}), ServingSettings())
        server = build_server(engine, version="0")
        parsed = []

        def watch(event, arguments):
            if event == "compile" and (arguments[1] == "<unknown>" or not isinstance(arguments[0], str | bytes | None)):
                parsed.append("".join(traceback.format_stack(limit=8)))

        sys.addaudithook(watch)
        calls = [("search", {{"query": "open a session"}}), ("search_code", {{"pattern": "os.open"}}),
                 ("go_to_definition", {{"symbol": "open"}}), ("find_references", {{"symbol": "open"}}),
                 ("describe_index", {{}}), ("index_health", {{}})]
        for name, arguments in calls:
            asyncio.run(server.call_tool(name, arguments))
        again = threading.Thread(target=lambda: Engine.open(Path({str(bundle_root)!r}), ServingSettings()).close())
        again.start()
        again.join()
        engine.close()
        met = list(parsed)
        __import__("ast").literal_eval("1")
        print("parsed", len(met), "and then", len(parsed) - len(met), *met)
        """
    )
    assert done.stdout.startswith("parsed 0 and then 1"), done.stdout + done.stderr
