"""Stage 3 as an asset: what each source file imports, offers and is."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import counts_table, table_metadata
from codequarry.assets.project import Project
from codequarry.assets.stages import each_repository, repository_asset
from codequarry.pipelines.workspace import Progress, repository_work
from codequarry.schemas.settings import RepositorySettings, Settings


@repository_asset("modules.module_repository", kinds={"parquet"}, after=("repository_syntax",))
def repository_modules(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return each_repository(context, project, _modules)


def _modules(repository: RepositorySettings, settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.modules import module_repository

    report = module_repository(repository.name, settings, progress)
    work = repository_work(settings.paths.work, report.name)
    return {
        **table_metadata(work, "modules", ("path", "module", "tags", "branches", "fan_in", "fan_out")),
        "modules": report.modules,
        "imports": report.imports,
        "imports_resolved": report.resolved,
        "imports_external": report.imports - report.resolved,
        "modules_by_language": counts_table(report.modules_by_language, "language"),
        "tags": counts_table(report.tags, "tag"),
        "most_imported": counts_table(dict(report.most_imported), "path"),
    }
