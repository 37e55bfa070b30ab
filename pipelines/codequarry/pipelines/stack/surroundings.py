"""The rest of a repository, for modules of which only some are read anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from codequarry.pipelines.modules.stage import RestOfRepository, is_config
from codequarry.pipelines.sources.census import take_census
from codequarry.pipelines.stack.base_version import Base
from codequarry.pipelines.stack.changes import Changes
from codequarry.pipelines.store.parts import MODULE_FACTS
from codequarry.pipelines.syntax.facts.table import read_modules
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import Settings


def surroundings(changes: Changes, base: Base, settings: Settings) -> RestOfRepository:
    """Return what the module stage has to know of the files that did not change.

    Args:
        changes: Differences of a repository.
        base: The base.
        settings: Settings of the run.

    Returns:
        Modules, paths, configurations, names and imports of the rest of the repository.
    """
    work, hidden = changes.base.work, changes.hidden
    modules = [
        module
        for file in work.tables(MODULE_FACTS)
        if file.is_file()
        for module in read_modules(file)
        if module.path not in hidden
    ]
    return RestOfRepository(
        modules,
        (changes.base.census.keys() - hidden) | changes.own.keys(),
        _configs(changes, settings),
        lambda: _names(changes),
        _fan_in(changes, base),
    )


def _configs(changes: Changes, settings: Settings) -> Mapping[str, bytes]:
    """Read the configurations that did not change."""
    live = {path for path in changes.base.census if is_config(path) and path not in changes.hidden}
    paths = tuple(path for path in changes.source.paths if path.decode(errors="replace") in live)
    some = replace(changes.source, paths=paths)
    return {entry.path: entry.content for entry in take_census(some, settings.sources) if entry.skip_reason is None}


def _names(changes: Changes) -> set[str]:
    """Return the names that live files define."""
    found: set[str] = set()
    for work, hidden in ((changes.base.work, changes.hidden), (changes.work, frozenset[str]())):
        for file in work.parts.glob("*/ast_nodes.parquet"):
            table = read_table(file, ["path", "name"])
            rows = zip(table["path"].to_pylist(), table["name"].to_pylist(), strict=True)
            found.update(name for path, name in rows if path not in hidden)
    return found


def _fan_in(changes: Changes, base: Base) -> dict[str, int]:
    """Return how many files that did not change imported each file that did: those of the base, less the hidden."""
    table = read_table(base.paths.table("modules"), ["repo", "path", "fan_in", "resolved"])
    before: dict[str, int] = {}
    without: Counter[str] = Counter()
    for repo, path, fan_in, resolved in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if repo == changes.work.path.name and path in changes.hidden:
            before[path] = fan_in
            without.update(resolved)
    return {path: fan_in - without[path] for path, fan_in in before.items() if path in changes.own}
