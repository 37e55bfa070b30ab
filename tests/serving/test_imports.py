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
            "codequarry.serving.cli as cli; cli.build_app()",
            "fastmcp mcp duckdb faiss tantivy onnxruntime numpy pyarrow",
        ),
        ("codequarry.serving.engine", "fastmcp mcp duckdb faiss tantivy onnxruntime pyarrow typer rich"),
        ("codequarry.serving.mcp_server", "duckdb faiss tantivy onnxruntime pyarrow typer.main"),
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
    assert not imported & {
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
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"print", "eval", "exec"}
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load"]
    assert all("allow_pickle=False" in ast.unparse(node) for node in loads)
