"""Arrow without pandas: a quarter of a CPU-second of a run that never needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

_NAME = "pandas"


class _NotThere(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == _NAME:
            raise ModuleNotFoundError(f"No module named {_NAME!r}", name=_NAME)


def leave_pandas_out() -> None:
    """Let Arrow believe that pandas is not installed, until something converts to it.

    Whatever Arrow makes of a list, it first asks pandas whether the list is one of its own, and imports it for that. It
    tries once: when that fails it tries again only for a conversion to pandas, which works as ever.
    """
    if _NAME in sys.modules:
        return
    import pyarrow as pa

    finder = _NotThere()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
