"""Whether CURRENT is as young as it should be: a check of ``published_bundle``, and the job that asks it by itself."""

import time
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from codequarry.assets.bundle import published_bundle
from codequarry.assets.project import Project
from codequarry.pipelines.sources import named
from codequarry.schemas.errors import NoBundleError
from codequarry.schemas.integrity import current_manifest
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings


@dg.asset_check(
    asset=published_bundle,
    name="current_is_fresh",
    blocking=True,  # what fails with it is the run, so that somebody is told
    description="CURRENT was built, or found up to date by a run, within [automation] max_age_hours; or it holds the "
    "head of every repository.",
)
def current_is_fresh(context: dg.AssetCheckExecutionContext, project: Project) -> dg.AssetCheckResult:
    with project.explained(0) as settings:
        manifest = current_manifest(BundleRoot(settings.bundle.root))
        if manifest is None:
            raise NoBundleError(
                f"nothing is published under {settings.bundle.root}", suggestion="launch the job `reindex`"
            )
        built = datetime.fromisoformat(manifest.created).timestamp()
        seen = context.instance.get_latest_materialization_event(published_bundle.key)
        confirmed = max(built, seen.timestamp if seen is not None else 0.0)
        # A clock that was set back makes nothing younger than new.
        hours = max(time.time() - confirmed, 0.0) / 3600
        allowed = settings.automation.max_age_hours
        verdict = f"CURRENT was confirmed {hours:.1f} hours ago, expected at most {allowed:g}"
        fresh = hours <= allowed
        if not fresh and _holds_every_head(settings, manifest, Path(project.settings_file).parent):
            verdict, fresh = "CURRENT holds the head of every repository", True
        return dg.AssetCheckResult(
            passed=fresh,
            description=verdict if fresh else f"{verdict}; see why no run of `reindex` succeeded since, and launch one",
            metadata={
                "version": manifest.version,
                "built": dg.MetadataValue.timestamp(datetime.fromtimestamp(built, UTC)),
                "confirmed": dg.MetadataValue.timestamp(datetime.fromtimestamp(confirmed, UTC)),
                "hours": round(hours, 2),
                "hours_allowed": allowed,
            },
        )


def _holds_every_head(settings: Settings, manifest: Manifest, folder: Path) -> bool:
    """Whether no run was needed; never so with a repository that has no head, or does not answer."""
    from codequarry.pipelines.heads import read_heads

    heads = read_heads(named(settings.sources.repositories).values(), folder)
    served = {source.name: source.commit for source in manifest.sources if not source.dirty}
    return not heads.problems and heads.commits == served


freshness = dg.define_asset_job(
    "freshness",
    selection=dg.AssetSelection.checks(current_is_fresh),
    description="Fails when the check of CURRENT's age does, so that the sensor failed_runs tells.",
)
