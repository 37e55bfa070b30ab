"""Stage 3: one row per source file, with what it imports resolved to files of the same repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pyarrow.parquet as pq

from codequarry.pipelines.ecmascript_modules import EcmascriptModules
from codequarry.pipelines.go_modules import GoModules
from codequarry.pipelines.module_families import Family, Repository
from codequarry.pipelines.module_table import SourceModule, read_modules
from codequarry.pipelines.module_tags import module_tags
from codequarry.pipelines.named_modules import NamedModules
from codequarry.pipelines.package_modules import PackageModules
from codequarry.pipelines.parts import MODULE_FACTS, Part, plan_parts
from codequarry.pipelines.path_classes import SOURCE
from codequarry.pipelines.path_modules import CModules, LuaModules, PathModules, RubyModules, ShellModules, ZigModules
from codequarry.pipelines.python_modules import PythonModules
from codequarry.pipelines.rust_modules import RustModules
from codequarry.pipelines.snapshot import Contents
from codequarry.pipelines.workspace import Progress, RepositoryWork, replacing, repository_work, silent
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import MODULES, TableWriter, read_table

_CONFIGS = frozenset({"go.mod", "package.json", "tsconfig.json", "jsconfig.json", "Cargo.toml"})
_BY_PACKAGE = (("java", "kotlin", "scala"), ("csharp",), ("php",))
_MOST_IMPORTED = 10


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """What the module stage made of a repository."""

    name: str
    modules: int
    imports: int
    """Entries of the ``imports`` column."""
    resolved: int
    """Those among them that name a file of the repository."""
    modules_by_language: dict[str, int]
    tags: dict[str, int]
    most_imported: tuple[tuple[str, int], ...]
    """(path, fan-in) of the files that most others import, the most first."""


class ModuleRow(NamedTuple):
    """A row of the table; columns as MODULES describes them."""

    repo: str
    path: str
    lang: str
    module: str
    package: str
    doc: str
    imports: list[str]
    external: list[str]
    resolved: list[str]
    exports: list[str]
    tags: list[str]
    lines: int
    code_lines: int
    comment_lines: int
    definitions: int
    branches: int
    fan_in: int
    fan_out: int


def module_repository(name: str, settings: Settings, progress: Progress = silent) -> ModuleReport:
    """Describe every source file of a repository as a module, and resolve its imports inside the repository.

    Writes ``modules``.

    Raises SourceError: the chunk stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    progress(f"{name}: modules", 0, 1)
    modules = [module for part in plan_parts(work, settings) for module in _part_modules(part)]
    files = read_table(work.require(work.table("files"), "chunk"), ["path", "path_class"])
    classes = dict(zip(files["path"].to_pylist(), files["path_class"].to_pylist(), strict=True))
    by_package = {"elixir", *(language for languages in _BY_PACKAGE for language in languages)}
    repository = Repository(
        modules={module.path: module for module in modules},
        paths=frozenset(classes),
        configs=_configs(work),
        mentioned=_mentions(work, frozenset(module.path for module in modules if module.lang in by_package)),
    )
    rows = module_rows(name, repository, classes)
    with replacing(work.table("modules")) as temporary, TableWriter(temporary, MODULES) as writer:
        writer.extend(rows)
    progress(f"{name}: modules", 1, 1)
    imports = sum(len(row.imports) for row in rows)
    imported = sorted(((row.path, row.fan_in) for row in rows if row.fan_in), key=lambda item: (-item[1], item[0]))
    return ModuleReport(
        name=name,
        modules=len(rows),
        imports=imports,
        resolved=imports - sum(len(row.external) for row in rows),
        modules_by_language=dict(sorted(Counter(row.lang for row in rows).items())),
        tags=dict(sorted(Counter(tag for row in rows for tag in row.tags).items())),
        most_imported=tuple(imported[:_MOST_IMPORTED]),
    )


def _part_modules(part: Part) -> list[SourceModule]:
    part.chunked()
    return read_modules(part.table(MODULE_FACTS))


def module_rows(name: str, repository: Repository, classes: Mapping[str, str]) -> list[ModuleRow]:
    """Rows of the table by path, whatever the order of the modules.

    classes: path class by path.
    """
    families = _families(repository)
    written: dict[str, dict[str, frozenset[str]]] = {}
    for path, module in sorted(repository.modules.items()):
        family = families[module.lang]
        found: dict[str, frozenset[str]] = {}
        for entry, imported in family.entries(module):
            found[entry] = found.get(entry, frozenset()) | family.resolve(module, imported)
        written[path] = found
    named = {path: frozenset().union(*found.values()) - {path} for path, found in written.items()}
    fan_in = Counter(target for paths in named.values() for target in paths)
    return [
        _row(name, repository.modules[path], families, found, named[path], fan_in[path], classes.get(path, SOURCE))
        for path, found in written.items()
    ]


def _row(
    repo: str,
    module: SourceModule,
    families: Mapping[str, Family],
    written: Mapping[str, frozenset[str]],
    named: frozenset[str],
    fan_in: int,
    path_class: str,
) -> ModuleRow:
    facts = module.facts
    called = families[module.lang].name(module)
    return ModuleRow(
        repo=repo,
        path=module.path,
        lang=module.lang,
        module=called.module,
        package=called.package,
        doc=facts.doc,
        imports=list(written),
        external=[entry for entry, found in written.items() if not found],
        resolved=sorted(named),
        exports=list(facts.exports),
        tags=module_tags(module, path_class, written),
        lines=module.lines,
        code_lines=facts.code_lines,
        comment_lines=facts.comment_lines,
        definitions=module.definitions,
        branches=facts.branches,
        fan_in=fan_in,
        fan_out=len(named),
    )


def _families(repository: Repository) -> dict[str, Family]:
    """The family of each language."""
    ecmascript = EcmascriptModules(repository)
    native = CModules(repository, "c", "cpp")
    families: dict[str, Family] = {
        "python": PythonModules(repository),
        **dict.fromkeys(("javascript", "typescript", "tsx"), ecmascript),
        "go": GoModules(repository),
        "rust": RustModules(repository),
        **dict.fromkeys(("c", "cpp"), native),
        "ruby": RubyModules(repository, "ruby"),
        "elixir": NamedModules(repository, "elixir"),
        "haskell": NamedModules(repository, "haskell"),
        "lua": LuaModules(repository, "lua"),
        "zig": ZigModules(repository, "zig"),
        "bash": ShellModules(repository, "bash"),
    }
    for languages in _BY_PACKAGE:
        families |= dict.fromkeys(languages, PackageModules(repository, *languages))
    by_path = PathModules(repository)
    return {language: families.get(language, by_path) for language in MODULE_LANGUAGES}


def _configs(work: RepositoryWork) -> dict[str, bytes]:
    contents = Contents(work)
    wanted = [path for path in contents.paths() if path.rpartition("/")[2] in _CONFIGS]
    return {path: found[1] for path in wanted if (found := contents.read(path)) is not None}


def _mentions(work: RepositoryWork, paths: frozenset[str]) -> Callable[[str], frozenset[str]]:
    """Names of the repository that a file refers to; the table is read when the first one is asked for.

    paths: the files that will be asked for.
    """

    @cache
    def by_path() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        with pq.ParquetFile(work.require(work.table("ast_references"), "chunk")) as file:
            for group in range(file.num_row_groups):
                columns = file.read_row_group(group, ["path", "name"])
                for path, name in zip(columns["path"].to_pylist(), columns["name"].to_pylist(), strict=True):
                    if path in paths:
                        found.setdefault(path, set()).add(name)
        return found

    return lambda path: frozenset(by_path().get(path, ()))
