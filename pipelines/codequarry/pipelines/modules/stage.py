"""Stage 3: write one row per source file, with its imports resolved to files of the same repository."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pyarrow.parquet as pq

from codequarry.pipelines.modules.resolve.ecmascript import EcmascriptModules
from codequarry.pipelines.modules.resolve.families import Family, Repository
from codequarry.pipelines.modules.resolve.go import GoModules
from codequarry.pipelines.modules.resolve.packages import NamedModules, PackageModules
from codequarry.pipelines.modules.resolve.paths import (
    CModules,
    LuaModules,
    PathModules,
    RubyModules,
    ShellModules,
    ZigModules,
)
from codequarry.pipelines.modules.resolve.python import PythonModules
from codequarry.pipelines.modules.resolve.rust import RustModules
from codequarry.pipelines.sources.path_classes import SOURCE
from codequarry.pipelines.sources.snapshot import Contents
from codequarry.pipelines.store.parts import MENTIONS, MODULE_FACTS, Part, plan_parts
from codequarry.pipelines.store.workspace import Progress, RepositoryWork, replacing, repository_work, silent
from codequarry.pipelines.syntax.facts.table import SourceModule, read_modules
from codequarry.schemas.bundle.tables import MODULES, TableWriter, read_table
from codequarry.schemas.settings.load import Settings

_CONFIGS = frozenset({"go.mod", "package.json", "tsconfig.json", "jsconfig.json", "Cargo.toml"})
_BY_PACKAGE = (("java", "kotlin", "scala"), ("csharp",), ("php",))
_MOST_IMPORTED = 10
_ENTRY_NAMES = frozenset({"__main__.py", "main.swift"})
_PACKAGE_STEMS = {
    "python": frozenset({"__init__"}),
    "javascript": frozenset({"index"}),
    "typescript": frozenset({"index"}),
    "tsx": frozenset({"index"}),
    "rust": frozenset({"mod", "lib"}),
    "lua": frozenset({"init"}),
}
_RE_EXPORTING = frozenset({"python", "javascript", "typescript", "tsx", "rust"})
_CONFIG = re.compile(r"(?:.*[._-])?(?:settings?|configs?|configuration|conf|options)", re.IGNORECASE)
_CLI = re.compile(
    r"(?:argparse|optparse|click|typer|docopt|fire|cyclopts|plac|absl\.app"  # Python; optparse is Ruby's too
    r"|commander|yargs|meow|cac|oclif|@oclif/core|minimist|citty|clipanion|inquirer|node:util/parseArgs"
    r"|flag|github\.com/spf13/(?:cobra|pflag)|github\.com/urfave/cli(?:/v\d)?|github\.com/alecthomas/kong"
    r"|clap|structopt|argh|pico_args|lexopt"
    r"|picocli|org\.apache\.commons\.cli|com\.beust\.jcommander|com\.github\.ajalt\.clikt|kotlinx\.cli|scopt"
    r"|com\.monovore\.decline|mainargs|System\.CommandLine|CommandLine|Spectre\.Console\.Cli|ArgumentParser"
    r"|thor|slop|gli|Symfony\.Component\.Console|<?getopt\.h>?|<?argp\.h>?|Options\.Applicative|System\.Console\.GetOpt|pl\.lapp|cliargs|.*(?:CLI11|cxxopts|argparse)\.hpp>?)"
    r"(?:\b.*)?"
)


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """Result of the module stage for a repository."""

    name: str
    modules: int
    imports: int
    """Entries of the ``imports`` column."""
    resolved: int
    """Entries that name a file of the repository."""
    modules_by_language: dict[str, int]
    tags: dict[str, int]
    most_imported: tuple[tuple[str, int], ...]
    """(path, fan-in) of the most imported files, the highest fan-in first."""


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


class RestOfRepository(NamedTuple):
    """The rest of a repository of which only some files are read anew."""

    modules: list[SourceModule]
    """Its source files."""
    paths: Collection[str]
    """Paths of its census."""
    configs: Callable[[], Mapping[str, bytes]]
    """Returns the contents of its configurations by path; called where a language needs them, as is the next."""
    defined: Callable[[Collection[str]], Collection[str]]
    """Returns those of some names that it defines."""
    fan_in: Mapping[str, int]
    """Number of its files that import each of the files that are read anew."""


def module_repository(
    name: str, settings: Settings, progress: Progress = silent, around: RestOfRepository | None = None
) -> ModuleReport:
    """Describe every source file of a repository as a module, and resolve its imports inside the repository.

    Writes ``modules``.

    Args:
        name: Name of the repository.
        settings: Settings of the run.
        progress: Called with (task, units done, units in all).
        around: Files beside those of the work folder; they get no rows. None when it holds the whole repository.

    Returns:
        Counts of modules and imports.

    Raises:
        SourceError: The chunk stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    progress(f"{name}: modules", 0, 1)
    parts = plan_parts(work, settings)
    modules = [module for part in parts for module in _part_modules(part)]
    files = read_table(work.require(work.table("files"), "chunk"), ["path", "path_class"])
    classes = dict(zip(files["path"].to_pylist(), files["path_class"].to_pylist(), strict=True))
    by_package = {"elixir", *(language for languages in _BY_PACKAGE for language in languages)}
    own = frozenset(module.path for module in modules)
    paths = frozenset(classes)
    mentioned = _mentions(work, frozenset(module.path for module in modules if module.lang in by_package))
    if around is not None:
        modules, paths = [*around.modules, *modules], paths.union(around.paths)
        mentioned = _mentions_of(parts, around.defined)

    @cache
    def configs() -> Mapping[str, bytes]:
        return _configs(work) if around is None else {**around.configs(), **_configs(work)}

    repository = Repository({module.path: module for module in modules}, paths, configs, mentioned)
    rows = module_rows(name, repository, classes, own, around.fan_in if around is not None else {})
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


def module_rows(
    name: str,
    repository: Repository,
    classes: Mapping[str, str],
    own: Collection[str] | None = None,
    more: Mapping[str, int] | None = None,
) -> list[ModuleRow]:
    """Return rows of the table by path, whatever the order of the modules.

    Args:
        name: Name of the repository.
        repository: Its modules and configurations.
        classes: Path class by path.
        own: Paths that get a row; None for all.
        more: Fan-in of them by files that get none.

    Returns:
        One row per module.
    """
    families = _families(repository)
    written: dict[str, dict[str, frozenset[str]]] = {}
    for path, module in sorted(repository.modules.items()):
        if own is not None and path not in own:
            continue
        family = families(module.lang)
        found: dict[str, frozenset[str]] = {}
        for entry, imported in family.entries(module):
            found[entry] = found.get(entry, frozenset()) | family.resolve(module, imported)
        written[path] = found
    named = {path: frozenset().union(*found.values()) - {path} for path, found in written.items()}
    fan_in = Counter(target for paths in named.values() for target in paths)
    fan_in.update(more or {})
    return [
        _row(name, repository.modules[path], families, found, named[path], fan_in[path], classes.get(path, SOURCE))
        for path, found in written.items()
    ]


def _row(
    repo: str,
    module: SourceModule,
    families: Callable[[str], Family],
    written: Mapping[str, frozenset[str]],
    named: frozenset[str],
    fan_in: int,
    path_class: str,
) -> ModuleRow:
    facts = module.facts
    called = families(module.lang).name(module)
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


def _families(repository: Repository) -> Callable[[str], Family]:
    """Return a function from a language to its family, which is made when a file needs it."""
    makers: dict[str, Callable[[Repository], Family]] = {
        "python": PythonModules,
        **dict.fromkeys(("javascript", "typescript", "tsx"), EcmascriptModules),
        "go": GoModules,
        "rust": RustModules,
        **dict.fromkeys(("c", "cpp"), lambda these: CModules(these, "c", "cpp")),
        "ruby": lambda these: RubyModules(these, "ruby"),
        "elixir": lambda these: NamedModules(these, "elixir"),
        "haskell": lambda these: NamedModules(these, "haskell"),
        "lua": lambda these: LuaModules(these, "lua"),
        "zig": lambda these: ZigModules(these, "zig"),
        "bash": lambda these: ShellModules(these, "bash"),
    }
    for languages in _BY_PACKAGE:
        makers |= dict.fromkeys(languages, _package_modules(languages))

    @cache
    def make(maker: Callable[[Repository], Family]) -> Family:
        return maker(repository)

    return lambda language: make(makers.get(language, PathModules))


def _package_modules(languages: tuple[str, ...]) -> Callable[[Repository], Family]:
    return lambda repository: PackageModules(repository, *languages)


def is_config(path: str) -> bool:
    """Return whether a file of this name decides how imports are resolved."""
    return path.rpartition("/")[2] in _CONFIGS


def _configs(work: RepositoryWork) -> dict[str, bytes]:
    contents = Contents(work)
    wanted = [path for path in contents.paths() if is_config(path)]
    return {path: found[1] for path in wanted if (found := contents.read(path)) is not None}


def _mentions(work: RepositoryWork, paths: frozenset[str]) -> Callable[[str], frozenset[str]]:
    """Return a function that gives the names of the repository that a file refers to.

    The table is read at the function's first call.

    Args:
        work: Work folder of the repository.
        paths: Files that the function will be called for.

    Returns:
        Function from a path to names.
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


def _mentions_of(
    parts: Iterable[Part], defined: Callable[[Collection[str]], Collection[str]]
) -> Callable[[str], frozenset[str]]:
    """Return a function that gives the names of a repository that a file of some parts refers to.

    Args:
        parts: The parts.
        defined: Returns those of some names that the repository defines.

    Returns:
        Function from a path to names.
    """

    @cache
    def by_path() -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for part in parts:
            columns = read_table(part.table(MENTIONS), ["path", "name"])
            for path, name in zip(columns["path"].to_pylist(), columns["name"].to_pylist(), strict=True):
                found.setdefault(path, set()).add(name)
        known = defined(set().union(*found.values()))
        return {path: frozenset(names.intersection(known)) for path, names in found.items()}

    return lambda path: by_path().get(path, frozenset())


def module_tags(module: SourceModule, path_class: str, written: Iterable[str]) -> list[str]:
    """Return the tags of a file, sorted: its roles, by its contents and its name.

    Args:
        module: The file.
        path_class: Its path class.
        written: Its imports, as in the ``imports`` column.

    Returns:
        Tags.
    """
    name = module.path.rpartition("/")[2]
    stem = name.rpartition(".")[0]
    facts = module.facts
    starts = facts.entry_point or name in _ENTRY_NAMES
    holding = {
        "entry_point": starts,
        "cli": any(_CLI.fullmatch(one.replace("\\", ".").replace("::", ".")) for one in written),
        "config": bool(_CONFIG.fullmatch(stem)),
        "package": stem in _PACKAGE_STEMS.get(module.lang, ()),
        "re_export": facts.only_imports and bool(facts.imports) and not starts and module.lang in _RE_EXPORTING,
        path_class: path_class != SOURCE,
    }
    return sorted(tag for tag, holds in holding.items() if holds)
