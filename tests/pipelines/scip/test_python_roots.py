"""Source roots of Python files, and what scip-python makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.scip.python_roots import source_roots
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.wire.symbols import ReferencesRequest
from codequarry.serving.engine.engine import Engine
from tests.pipelines.conftest import MakeSettings


def roots(**imports: str) -> list[str]:
    """Find the roots of files, written as ``a__b_py="import x"`` for ``a/b.py``."""
    files = {path.replace("__", "/").replace("_py", ".py"): text.encode() for path, text in imports.items()}
    return source_roots(files)


def test_a_src_layout_has_its_root() -> None:
    assert roots(src__app__store_py="", tests__test_py="from app.store import Store\n") == ["src"]
    assert roots(src__app__store_py="", tests__test_py="import app.store as store, os\n") == ["src"]
    assert roots(app__store_py="", tests__test_py="from app.store import Store\n") == []


def test_roots_of_namespace_packages_come_from_their_imports() -> None:
    files = {
        "one/quarry/schemas/__init__.py": b"",
        "one/quarry/schemas/kinds.py": b"",
        "two/quarry/serving/engine.py": b"from quarry.schemas.kinds import KINDS\nfrom quarry.schemas import kinds\n",
        "tests/test_engine.py": b"from quarry.serving.engine import Engine\n",
    }
    assert source_roots(files) == ["one", "two"]


@pytest.mark.parametrize(
    "files",
    [
        {"a/src/app/main.py": b"from app.main import run\n", "b/src/app/main.py": b"from app.main import run\n"},
        {"tools/json.py": b"", "app/main.py": b"import json\n"},
        {"src/app/store.py": b"from .door import Door\n", "src/app/door.py": b"from . import store\n"},
        {"src/a.py": "größe = 1\n# from app.größe import x\n".encode("latin-1")},
        {},
    ],
)
def test_names_that_several_files_may_have_tell_no_root(files: dict[str, bytes]) -> None:
    assert source_roots(files) == []


def test_roots_that_hold_modules_of_one_name_are_told_apart() -> None:
    """Their symbols would be the same: only the root that more imports mean is one."""
    files = {
        "a/src/app/main.py": b"", "a/src/app/only.py": b"",
        "b/src/app/main.py": b"", "b/src/app/other.py": b"",
        "c.py": b"import app.only\n", "d.py": b"import app.only\nimport app.other\n",
    }  # fmt: skip
    assert source_roots(files) == ["a/src"]


@pytest.fixture
def real_src_layout(tmp_path: Path, make_settings: MakeSettings, real_indexers: Path) -> Settings:
    del real_indexers
    folder = tmp_path / "shop"
    texts = {
        "src/shop/cart.py": "class Cart:\n    def total(self):\n        return 0\n",
        "tests/test_cart.py": "from shop.cart import Cart\n\n\ndef test_total():\n    assert Cart().total() == 0\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return make_settings(folder)


@pytest.mark.slow
def test_uses_in_the_tests_of_a_src_layout_are_exact(real_src_layout: Settings) -> None:
    index_repositories(real_src_layout)
    engine = Engine.open(real_src_layout.bundle.root, real_src_layout.serving)
    try:
        for name, lines in (("Cart", [0, 4]), ("Cart.total", [4])):
            found = engine.references(ReferencesRequest(symbol=name))
            assert [(one.uri, one.start_line, one.evidence) for one in found.results] == [
                ("shop/tests/test_cart.py", line, "exact") for line in lines
            ]
    finally:
        engine.close()
