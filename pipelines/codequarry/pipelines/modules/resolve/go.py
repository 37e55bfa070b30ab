"""Go: a package is a folder; its import path follows from the go.mod above it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codequarry.pipelines.modules.resolve.families import ModuleName, Repository, as_written, parents
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

_MODULE = re.compile(rb'^[ \t]*module[ \t]+"?([^\s"/(][^\s"(]*)', re.MULTILINE)


class GoModules:
    """The Go files of a repository."""

    def __init__(self, repository: Repository) -> None:
        self._roots: dict[str, str] = {}
        """Import path by folder of a go.mod."""
        for folder, data in repository.configs_called("go.mod").items():
            if match := _MODULE.search(data):
                self._roots[folder] = match[1].decode("utf-8", "replace")
        self._files: dict[str, set[str]] = {}
        """Files of each package without its tests, by import path."""
        for path in repository.of("go"):
            if not path.endswith("_test.go"):
                self._files.setdefault(self._import_path(path), set()).add(path)

    def name(self, module: SourceModule) -> ModuleName:
        """Return the package as declared, and its import path."""
        package = self._import_path(module.path)
        return ModuleName(module.facts.package or package.rpartition("/")[2], package)

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield one entry for each import path."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return all files of the package, without its tests."""
        del module
        return set(self._files.get(imported.source, ()))

    def _import_path(self, path: str) -> str:
        """Return the import path of a file's package; its folder, when no go.mod is above it."""
        folder = path.rpartition("/")[0]
        root = next((above for above in parents(path) if above in self._roots), None)
        if root is None:
            return folder
        inner = folder[len(root) :].strip("/")
        return f"{self._roots[root]}/{inner}" if inner else self._roots[root]
