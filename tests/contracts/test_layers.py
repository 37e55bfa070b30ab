"""The import contract of docs/DESIGN.md, checked by import-linter and by blocking imports."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_layers_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 kept, 0 broken" in done.stdout


def test_schemas_and_pipelines_import_without_dagster() -> None:
    """Prevents the regression in which a plain function drags an orchestrator into every worker."""
    program = textwrap.dedent(
        """
        import importlib, pkgutil, sys
        for blocked in ("dagster", "torch", "transformers", "great_expectations"):
            sys.modules[blocked] = None
        import codequarry.pipelines, codequarry.schemas
        for package in (codequarry.schemas, codequarry.pipelines):
            for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                importlib.import_module(module.name)
        print("imported")
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "imported", done.stderr
