"""The base install, which has the packages of `requirements.lock` alone."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
_LOCKED_NAME = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_WITHOUT = """
import sys

class Hidden:
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"{{fullname}} is not in requirements.lock", name=fullname)

sys.meta_path.insert(0, Hidden())
from codequarry.pipelines.cli.root import main
main()
"""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_in_the_lock() -> set[str]:
    """Return the modules that are installed here, and not with the base install."""
    locked = {_normal(name) for name in _LOCKED_NAME.findall((PROJECT / "requirements.lock").read_text("utf-8"))}
    return {
        module
        for module, names in metadata.packages_distributions().items()
        if not {_normal(name) for name in names} & {*locked, "codequarry", "pip", "setuptools"}
    }


def test_it_indexes_searches_and_checks(tmp_path: Path) -> None:
    hidden = _not_in_the_lock()
    assert {"dagster", "great_expectations", "pandas", "onnxruntime", "obstore", "pytest"} <= hidden
    program = _WITHOUT.format(modules=hidden)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    (tmp_path / "prices.py").write_text("def read_price(text):\n    return float(text.replace(',', '.'))\n")
    commands = [
        ["index", "."],
        ["search", "read a price with a comma"],
        ["definition", "read_price"],
        ["verify", "--deep"],
    ]
    answers = {command[0]: run(*command) for command in commands}
    assert {name: done.stderr for name, done in answers.items() if done.returncode} == {}
    assert "prices.py:1" in answers["search"].stdout
    gates = run("gates", "check")
    assert gates.returncode == 2
    assert "pip install 'codequarry[dagster]'" in gates.stderr
