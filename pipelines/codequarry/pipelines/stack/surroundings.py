"""The rest of a repository, for modules of which only some are read anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from codequarry.pipelines.modules.stage import RestOfRepository, is_config
from codequarry.pipelines.sources.census import take_census
from codequarry.pipelines.stack.base_version import Base
from codequarry.pipelines.stack.changes import Changes
from codequarry.pipelines.store.row_groups import rows_among
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
    hidden = changes.hidden
    return RestOfRepository(
        [module for module in changes.base.modules if module.path not in hidden],
        (changes.base.census.keys() - hidden) | changes.own.keys(),
        lambda: _configs(changes, settings),
        lambda names: _defined(changes, names),
        _fan_in(changes, base),
    )


def _configs(changes: Changes, settings: Settings) -> Mapping[str, bytes]:
    """Return the configurations that did not change; what was read for an earlier version over the base is kept."""
    held = changes.base.configs
    live = {path for path in changes.base.census if is_config(path) and path not in changes.hidden}
    lacking = live - held.keys()
    paths = tuple(path for path in changes.source.paths if path.decode(errors="replace") in lacking) if lacking else ()
    for entry in take_census(replace(changes.source, paths=paths), settings.sources):
        held[entry.path] = entry.content if entry.skip_reason is None else None
    return {path: content for path in live if (content := held.get(path)) is not None}


def _defined(changes: Changes, names: Collection[str]) -> set[str]:
    """Return those of some names that live files define."""
    found: set[str] = set()
    for work, hidden in ((changes.base.work, changes.hidden), (changes.work, frozenset[str]())):
        for file in work.parts.glob("*/ast_nodes.parquet"):
            table = rows_among(read_table(file, ["path", "name"]), "name", pa.array(names, pa.string()))
            rows = zip(table["path"].to_pylist(), table["name"].to_pylist(), strict=True)
            found.update(name for path, name in rows if path not in hidden)
    return found


def _fan_in(changes: Changes, base: Base) -> dict[str, int]:
    """Return how many files that did not change imported each file that did: those of the base, less the hidden."""
    table = read_table(base.paths.table("modules"), ["repo", "path", "fan_in", "resolved"])
    table = rows_among(table, "path", pa.array(changes.hidden, pa.string()))
    before: dict[str, int] = {}
    without: Counter[str] = Counter()
    for repo, path, fan_in, resolved in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if repo == changes.work.path.name:
            before[path] = fan_in
            without.update(resolved)
    return {path: fan_in - without[path] for path, fan_in in before.items() if path in changes.own}
