"""Assets that describe what is published: its coverage, the operator's notebook, what late interaction is worth."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import dagster as dg

from codequarry.assets.metadata import bar_plot, markdown_table
from codequarry.assets.project import Project
from codequarry.assets.repositories import EVERY_SNAPSHOT
from codequarry.assets.stages import OWNERS, once, whole_asset
from codequarry.pipelines.store.library_versions import own_version
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.settings.load import Settings

_LANGUAGES = """
SELECT lang AS language, count(*) AS files, sum(indexed::INTEGER) AS indexed, sum(lines)::BIGINT AS lines,
       (SELECT count(*) FROM chunks WHERE chunks.lang = census.lang) AS chunks,
       (SELECT count(*) FROM symbols_mat JOIN files_mat USING (file) WHERE files_mat.lang = census.lang) AS definitions
FROM (SELECT lang, skip_reason = '' AS indexed, lines FROM files WHERE lang <> '') AS census
GROUP BY lang ORDER BY indexed DESC, lang
"""
_SKIPPED = "SELECT skip_reason AS reason, count(*) AS files FROM files WHERE skip_reason <> '' GROUP BY 1 ORDER BY 1"


@dg.asset(
    description="What CURRENT covers: files, lines, chunks and definitions by language, and the files that were "
    "skipped by reason.",
    group_name="analysis",
    owners=OWNERS,
    kinds={"duckdb"},
    deps=["published_bundle"],
    code_version=own_version(),
)
def coverage_report(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    with project.explained(context.retry_number) as settings:
        return dg.MaterializeResult(metadata=_coverage(settings))


def _coverage(settings: Settings) -> Mapping[str, Any]:
    import duckdb

    from codequarry.serving.sql.session import open_catalog

    # The queries are ours, so they need no connection that is confined to reading.
    with (
        closing(duckdb.connect()) as connection,
        open_catalog(settings.bundle.root, pools=settings.telemetry.pool_folder, connection=connection) as session,
    ):
        languages, skipped = (session.sql(query).fetchall() for query in (_LANGUAGES, _SKIPPED))
        version = session.manifest.version
    columns = ("language", "files", "indexed", "lines", "chunks", "definitions")
    files, indexed = (sum(row[place] for row in languages) for place in (1, 2))
    return {
        "version": version,
        "share_indexed": round(indexed / max(1, files), 4),
        "languages": markdown_table([dict(zip(columns, row, strict=True)) for row in languages], columns),
        "chunks_by_language": bar_plot("Chunks by language", {row[0]: row[4] for row in languages}),
        "definitions_by_language": bar_plot("Definitions by language", {row[0]: row[5] for row in languages}),
        "skipped": markdown_table([dict(zip(("reason", "files"), row, strict=True)) for row in skipped],
                                  ("reason", "files")),
    }  # fmt: skip


def measured_late_interaction() -> dg.AssetsDefinition:
    """Return the asset that measures late interaction; it is made on request alone."""

    @whole_asset("evaluation.late_gain.measure_late", group="analysis", kinds={"numpy"}, after=EVERY_SNAPSHOT)
    def late_interaction_gain(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
        return once(context, project, _measure_late)

    return late_interaction_gain


def _measure_late(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.evaluation.late_gain import measure_late

    verdict = measure_late(settings, progress)
    return {"helps": verdict.helps, "late_interaction": verdict.said, "digest": verdict.said}


def rendered_notebook() -> dg.AssetsDefinition:
    """Return the asset of the notebook that the settings name; without one it does not exist."""
    published = dg.AssetDep("published_bundle")

    @whole_asset("publish.notebook.render.render_notebook", group="analysis", kinds={"jupyter"}, after=(published,))
    def notebook_page(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
        return once(context, project, _render)

    return notebook_page


def _render(settings: Settings, _progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.publish.notebook.render import render_notebook

    page = render_notebook(settings)
    return {
        "path": dg.MetadataValue.path(page.path),
        "page": dg.MetadataValue.url(page.path.as_uri()),
        "version": page.version,
        "pictures": page.pictures,
        "executed": page.executed,
        "digest": page.sha256,
    }
