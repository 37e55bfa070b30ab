"""Source roots of Python files: the folders from which absolute imports name them, such as ``src``.

scip-python knows a repository's top folder alone. Without the others an import of ``src/app/store.py`` as ``app.store``
means nothing to it, and every use in the tests of a ``src`` layout is lost.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import|import[ \t]+([\w., \t]+))", re.MULTILINE)
_SUFFIXES = (".py", ".pyi")


def source_roots(files: Mapping[str, bytes]) -> list[str]:
    """Find the source roots of Python files below the repository's top folder.

    A folder is one where absolute imports name files in it and nowhere else. Folders with modules of equal names are no
    roots beside each other: their symbols would be the same.

    Args:
        files: Content by path.

    Returns:
        Folders, the one that most imports mean first.
    """
    modules: dict[str, set[str]] = {}
    packages = {path.rpartition("/")[0] for path in files if path.endswith(("/__init__.py", "/__init__.pyi"))}
    for path in files:
        for root, module in _readings(path, packages):
            modules.setdefault(module, set()).add(root)
    votes: Counter[str] = Counter()
    for content in files.values():
        for name in _imported(content):
            roots = modules.get(name, ())
            if len(roots) == 1 and name.partition(".")[0] not in sys.stdlib_module_names:
                votes.update(roots)
    del votes[""]
    return _apart([root for root, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))], files)


def _imported(content: bytes) -> set[str]:
    """Return the dotted names that a file imports, or imports from; relative ones are left out."""
    found: set[str] = set()
    for module, several in _IMPORT.findall(content):
        names = [module] if module else [part.split()[0] for part in several.split(b",") if part.strip()]
        found.update(name.decode("utf-8", "replace") for name in names if not name.startswith(b"."))
    return found


def _readings(path: str, packages: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each folder that may be the root of a file, with the module's name from there."""
    stem = _module_path(path)
    if not stem:
        return
    parts = stem.split("/")
    for start in range(len(parts)):
        root = "/".join(parts[:start])
        if root not in packages:
            yield root, ".".join(parts[start:])


def _module_path(path: str) -> str:
    """Return the path of a module without its ending; a package's is that of its folder, "" is the top folder."""
    stem, _, _ = path.rpartition(".")
    return stem.removesuffix("__init__").rstrip("/") if path.endswith(_SUFFIXES) else ""


def _apart(roots: Iterable[str], files: Mapping[str, bytes]) -> list[str]:
    """Return the roots without those that hold a module that an earlier one has by the same name."""
    taken: set[str] = set()
    chosen: list[str] = []
    for root in roots:
        own = {_module_path(path)[len(root) + 1 :] for path in files if path.startswith(f"{root}/")} - {""}
        if not own & taken:
            taken |= own
            chosen.append(root)
    return chosen
