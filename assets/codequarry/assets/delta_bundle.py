"""Delta versions: the files that differ from the last complete version, published over it by a job of their own.

A run of `DELTA` does not touch what the complete version was made of. So the assets of the stages stay as they are, and
say what they said: two assets alone change, the delta and the published bundle.
"""

import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.bundle import ACCEPT_TAG
from codequarry.assets.metadata import bundle_metadata, megabytes
from codequarry.assets.project import Project, sync_partitions
from codequarry.assets.stages import OWNERS, POOL, described, logged
from codequarry.pipelines.store.library_versions import own_version
from codequarry.schemas.bundle.manifest import StackEntry
from codequarry.schemas.errors import CodequarryError, SourceError

if TYPE_CHECKING:  # they bring DuckDB and FAISS, which the definitions do without
    from codequarry.pipelines.run import IndexReport
    from codequarry.serving.version.check import Check

WANTED_TAG = "codequarry/complete_version"
"""Tag of a run of `DELTA` after which a complete version has to be built; its value says why."""
DELTA_BUNDLE = "delta_bundle"
_TAG_CHARS = 200

_OF_ROWS = "rows_of_the_delta"
_OF_STACK = "counts_and_shares_of_the_stack"
_OF_ANSWERS = "answers_about_changed_files"
_CHECKS = {
    _OF_ROWS: "Every row of the delta's own tables, its indexes, and how it lies over its base.",
    _OF_STACK: "Counts, limits and shares of base and delta as one, compared with CURRENT.",
    _OF_ANSWERS: "Questions about changed files, once [retrieval] min_changed_share of all files changed.",
}


@dg.asset(
    name=DELTA_BUNDLE,
    description=f"{described('stack.build.index_changes')}\n\nThe job DELTA makes it, beside the complete versions of "
    "REINDEX. A run that finds that a complete version has to be built publishes nothing, and the sensor "
    "complete_version_wanted starts REINDEX.",
    group_name="bundle",
    owners=OWNERS,
    kinds={"file"},
    deps=["published_bundle"],
    pool=POOL,
    code_version=own_version(),
    output_required=False,
    check_specs=[
        dg.AssetCheckSpec(name, asset=DELTA_BUNDLE, description=description) for name, description in _CHECKS.items()
    ],
)
def delta_bundle(context: dg.AssetExecutionContext, project: Project) -> Generator[Any, None, None]:
    from codequarry.pipelines.gates.accept import checked_reason
    from codequarry.pipelines.stack.build import NotStacked, index_changes

    checks: list[Check] = []
    started = time.perf_counter()
    with project.explained(context.retry_number) as settings:
        reason = checked_reason(context.run.tags.get(ACCEPT_TAG))
        try:
            done = index_changes(settings, logged(context), accept=reason, report=checks.extend)
        except SourceError as error:
            done = NotStacked(error.message)
        except CodequarryError:
            yield from _results(checks)
            raise
    if isinstance(done, NotStacked):
        context.log.warning(f"no delta version: {done.reason}")
        context.instance.add_run_tags(context.run.run_id, {WANTED_TAG: done.reason[:_TAG_CHARS]})
        yield from _results(checks)
        return
    metadata = _metadata(done, round(time.perf_counter() - started, 3))
    data_version = dg.DataVersion(done.manifest.digest)
    if not done.unchanged:
        yield dg.AssetMaterialization(
            "published_bundle", metadata=metadata, tags={"dagster/data_version": data_version.value}
        )
    if done.manifest.stack is None:
        context.log.info(f"the sources are those of the complete version {done.manifest.version} again")
        yield from _results(checks)
        return
    yield dg.MaterializeResult(DELTA_BUNDLE, metadata=metadata, data_version=data_version)
    yield from _results(checks)


def _metadata(done: "IndexReport", seconds: float) -> dict[str, Any]:
    written = done.manifest.size_bytes - done.linked_bytes
    return {
        **bundle_metadata(done.manifest),
        **_stack_metadata(done.manifest.stack),
        "unchanged": done.unchanged,
        "bytes_written": 0 if done.unchanged else written,
        "megabytes_written": 0.0 if done.unchanged else megabytes([written]),
        "linked_bytes": done.linked_bytes,
        "removed_versions": list(done.pruned.removed) if done.pruned else [],
        "created": done.manifest.created,
        "path": dg.MetadataValue.path(done.path),
        "seconds": seconds,
    }


def _stack_metadata(stack: StackEntry | None) -> dict[str, Any]:
    """Return what a delta version says of its base; only that it is none for a complete version."""
    if stack is None:
        return {"is_delta": False}
    return {
        "is_delta": True,
        "base": stack.base,
        "hidden_files": stack.hidden_files,
        "hidden_chunks": stack.hidden_chunks,
        "new_files": stack.files,
        "new_chunks": stack.chunks,
    }


def _results(checks: "Sequence[Check]") -> Generator[dg.AssetCheckResult, None, None]:
    """Yield the checks of a delta: the gates of verification, in three groups; each names the gates that failed."""
    from codequarry.pipelines.gates.accept import describe_failure

    groups: dict[str, list[Check]] = {name: [] for name in _CHECKS}
    for check in checks:
        groups[_group_of(check)].append(check)
    for name, own in groups.items():
        failed = [check for check in own if not check.passed]
        regressions = all(check.regression for check in failed)
        yield dg.AssetCheckResult(
            passed=not failed,
            asset_key=DELTA_BUNDLE,
            check_name=name,
            severity=dg.AssetCheckSeverity.WARN if regressions else dg.AssetCheckSeverity.ERROR,
            description="; ".join(map(describe_failure, failed)) or _passed(own),
            metadata={"found": len(failed), "allowed": 0, "gates": len(own)},
        )


def _passed(own: "Sequence[Check]") -> str:
    if len(own) == 1:
        return f"{own[0].name}: {own[0].found}, {own[0].expected}"
    return f"{len(own)} gates passed" if own else "not asked: nothing was published, or an earlier gate stopped it"


def _group_of(check: "Check") -> str:
    from codequarry.pipelines.gates.drift import DRIFT
    from codequarry.pipelines.gates.required_content import LIMITS

    if check.name in (*DRIFT, *LIMITS, "secrets found", "counts of the stack"):
        return _OF_STACK
    asked = check.regression or "answers" in check.name or check.name.startswith(("questions ", "verdict "))
    return _OF_ANSWERS if asked or check.name == "channels that the reader cannot open" else _OF_ROWS


delta = dg.define_asset_job(
    "DELTA",
    selection=dg.AssetSelection.assets(DELTA_BUNDLE) | dg.AssetSelection.checks_for_assets(delta_bundle),
    description="Publishes the files that differ from the last complete version as a delta version over it.",
    tags={"dagster/retry_strategy": "ALL_STEPS"},
)


def complete_version_wanted(reindex: Any) -> dg.SensorDefinition:
    """Return the sensor that builds a complete version after a run of `DELTA` that could publish none.

    Args:
        reindex: Job that builds one.

    Returns:
        The sensor.
    """

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS,
        name="complete_version_wanted",
        monitored_jobs=[delta],
        request_job=reindex,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts REINDEX over all repositories after a run of DELTA that found that a complete version has "
        "to be built: by share, by age, or because something other than files changed. The run says why.",
    )
    def request(
        context: dg.RunStatusSensorContext, project: dg.ResourceParam[Project]
    ) -> dg.RunRequest | dg.SkipReason:
        from codequarry.assets.automation import whole

        run = context.dagster_run
        stored = context.instance.get_run_by_id(run.run_id) or run
        if (reason := stored.tags.get(WANTED_TAG)) is None:
            return dg.SkipReason(f"run {run.run_id} published what there was")
        keys = sync_partitions(context.instance, project.settings())
        return dg.RunRequest(run_key=run.run_id, tags=whole(keys) | {WANTED_TAG: reason})

    return request
