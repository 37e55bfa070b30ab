"""Stage 4 as an asset: precise definitions and references, where an indexer is installed."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import markdown_table, table_metadata
from codequarry.assets.project import Project
from codequarry.assets.stages import each_repository, repository_asset
from codequarry.pipelines.workspace import Progress, repository_work
from codequarry.schemas.settings import RepositorySettings, Settings


@repository_asset("scip.scip_repository", kinds={"scip", "parquet"}, after=("repository_snapshot",))
def repository_scip(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _scip)


def _scip(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.scip import scip_repository

    report = scip_repository(repository.name, settings, progress)
    work = repository_work(settings.paths.work, report.name)
    indexers = [{**entry.model_dump(), "coverage": f"{entry.coverage:.3f}"} for entry in report.indexers]
    return {
        **table_metadata(work, "scip_occurrences", ("path", "symbol", "start_line", "start_column", "is_definition")),
        "indexers": markdown_table(indexers, ("indexer", "status", "coverage", "documents", "files", "reason")),
        "definitions": report.definitions,
        "symbols": report.symbols,
        "dropped": report.dropped,
        "cached": report.cached,
    }
