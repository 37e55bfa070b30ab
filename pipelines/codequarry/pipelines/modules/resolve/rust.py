"""Rust: the module tree below each crate's root, and the crates of the same repository."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codequarry.pipelines.modules.resolve.families import ModuleName, Repository, as_written, parents, without_suffix
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

_PACKAGE = re.compile(rb"^\[package\][^\[]*?^[ \t]*name[ \t]*=[ \t]*[\"']([\w-]+)[\"']", re.MULTILINE)
_ROOTS = ("lib.rs", "main.rs")
_TARGETS = frozenset({"bin", "tests", "examples", "benches"})
"""Folders in which each file is a crate of its own."""


class RustModules:
    """The Rust files of a repository."""

    def __init__(self, repository: Repository) -> None:
        self._modules = repository.of("rust")
        self._packages: dict[str, str] = {}
        """Folder of a crate by its name."""
        for folder, data in repository.configs_called("Cargo.toml").items():
            if match := _PACKAGE.search(data):
                self._packages[match[1].decode().replace("-", "_")] = folder
        self._names = {folder: name for name, folder in self._packages.items()}

    def name(self, module: SourceModule) -> ModuleName:
        """Return the crate's name, or ``crate`` without a Cargo.toml, and the path below it."""
        base, parts = self._place(module.path)
        last = module.path.rpartition("/")[2]
        if not parts and last not in _ROOTS:
            parts = [base.rpartition("/")[2], last.removesuffix(".rs")]
        folder = next((above for above in parents(f"{base}/_" if base else "_") if above in self._names), None)
        crate = "crate" if folder is None else self._names[folder]
        return ModuleName(".".join((crate, *parts)), ".".join((crate, *parts[:-1])) if parts else "")

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield one entry for each path used."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the file of the longest prefix of the path that is a module."""
        head, *rest = (part.removeprefix("r#") for part in imported.source.split("::"))
        base, own = self._place(module.path)
        if head == "crate":
            return self._longest(base, rest, module.path)
        if head in ("self", "super"):
            parts = list(own)
            while head == "super":
                parts = parts[:-1]
                head, *rest = rest or [""]
            tail = rest if head == "self" else [head, *rest]
            return self._longest(base, [*parts, *tail], module.path)
        below = self._file(base, [*own, head])
        if below:
            return self._longest(base, [*own, head, *rest], module.path)
        if head in self._packages:
            folder = self._packages[head]
            return self._longest(f"{folder}/src" if folder else "src", rest, module.path)
        return set()

    def _longest(self, base: str, parts: list[str], own: str) -> set[str]:
        """Return the file of the longest prefix of the parts that names one.

        Without one it is the crate's root: the importing file, if that is a root.
        """
        for count in range(len(parts), 0, -1):
            if file := self._file(base, parts[:count]):
                return {file}
        is_root = own in self._modules and self._place(own) == (base, [])
        return {own} if is_root else {self._file(base, [])} - {""}

    def _file(self, base: str, parts: list[str]) -> str:
        """Return the file of the module with these parts below a crate's root folder; "" for none."""
        path = "/".join(part for part in (base, *parts) if part)
        names = [f"{path}.rs", f"{path}/mod.rs"] if parts else [f"{path}/{root}" if path else root for root in _ROOTS]
        return next((name for name in names if name in self._modules), "")

    def _place(self, path: str) -> tuple[str, list[str]]:
        """Return (folder of the crate's root, parts of the module path below it)."""
        above = parents(path)
        base = next((folder for folder in above if self._holds_root(folder)), None)
        target = next((folder for folder in above if folder.rpartition("/")[2] in _TARGETS), None)
        if target is not None and (base is None or len(target) > len(base)):
            base = target
        if base is None:
            base = next((folder for folder in above if folder.rpartition("/")[2] == "src"), "")
        inner = without_suffix(path)[len(base) :].strip("/").split("/")
        is_folder = path.rpartition("/")[2] in ("mod.rs", *_ROOTS) or (base == target and len(inner) == 1)
        return base, inner[:-1] if is_folder else inner

    def _holds_root(self, folder: str) -> bool:
        return any((f"{folder}/{root}" if folder else root) in self._modules for root in _ROOTS)
