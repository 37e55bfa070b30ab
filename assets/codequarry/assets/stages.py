"""Common parts of all assets: policy, description, timing, progress."""

import ast
import hashlib
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.project import PARTITIONS, RANGE_TAGS, Project, repositories
from codequarry.pipelines.sources.carried import left_out
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.library_versions import own_version
from codequarry.pipelines.store.workspace import Progress, repository_work
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import RepositorySettings, Settings

if TYPE_CHECKING:
    from codequarry.pipelines.store.device_use import DeviceUse

OWNERS = ["team:codequarry"]

# The work folder has one writer: a second run would overwrite stage outputs between the steps of the first.
POOL = "work_folder"

_LOG_EVERY_S = 10.0

Stage = Callable[[RepositorySettings, Settings, Progress], Mapping[str, Any]]
"""Runs one pipeline function for a repository and returns the metadata of its partition."""

StageOfSeveral = Callable[[RepositorySettings, Settings, Progress], Mapping[str, Mapping[str, Any]]]
"""The same by asset, for a function that makes several."""


def repository_asset(
    function: str,
    *,
    group: str,
    kinds: set[str],
    after: tuple[str, ...] = (),
    check_specs: Sequence[dg.AssetCheckSpec] = (),
) -> Callable[..., dg.AssetsDefinition]:
    """Return the decorator of an asset with one partition per repository.

    One run does all chosen partitions: starting a process costs more than indexing a small repository.

    Args:
        function: Pipeline function that the asset wraps, "package.module.name"; its docstring is the description.
        group: Group in the graph.
        kinds: Kinds that Dagster shows.
        after: Assets that it reads.
        check_specs: Checks whose results its function yields.

    Returns:
        The decorator.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill_policy; the tests launch such runs in every way
        return dg.asset(
            description=described(function),
            group_name=group,
            owners=OWNERS,
            kinds=kinds,
            deps=list(after),
            check_specs=check_specs,
            partitions_def=repositories,
            backfill_policy=dg.BackfillPolicy.single_run(),
            pool=POOL,
            code_version=own_version(),
        )


def repository_assets(
    function: str, *, kinds: Mapping[str, set[str]], after: str
) -> Callable[..., dg.AssetsDefinition]:
    """Return the decorator of several assets that one pass makes, each with one partition per repository.

    Args:
        function: As in ``repository_asset``.
        kinds: Kinds by asset, in the order of the graph.
        after: Asset that they read.

    Returns:
        The decorator.
    """
    specs = [
        dg.AssetSpec(
            name,
            description=described(function),
            group_name="syntax",
            owners=OWNERS,
            kinds=each,
            deps=[after],
            code_version=own_version(),
        )
        for name, each in kinds.items()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # see repository_asset
        return dg.multi_asset(
            specs=specs,
            partitions_def=repositories,
            backfill_policy=dg.BackfillPolicy.single_run(),
            pool=POOL,
        )


def whole_asset(
    function: str, *, group: str, kinds: set[str], after: tuple[dg.AssetDep, ...]
) -> Callable[..., dg.AssetsDefinition]:
    """Return the decorator of an asset that concerns all repositories at once.

    Parameters are those of ``repository_asset``.
    """
    return dg.asset(
        description=described(function),
        group_name=group,
        owners=OWNERS,
        kinds=kinds,
        deps=list(after),
        pool=POOL,
        code_version=own_version(),
    )


def each_repository(context: dg.AssetExecutionContext, project: Project, stage: Stage) -> dg.MaterializeResult:
    """Run a stage for every partition of the run, each with metadata of its own."""
    key = context.asset_key.to_user_string()
    (result,) = together_for_each_repository(context, project, lambda *chosen: {key: stage(*chosen)})
    return result


def together_for_each_repository(
    context: dg.AssetExecutionContext, project: Project, stage: StageOfSeveral
) -> tuple[dg.MaterializeResult, ...]:
    """Run a stage that makes several assets for every partition of the run, each with metadata of its own.

    The ``sha256`` in the metadata becomes the data version, see ``content_version``.
    """
    digests: dict[str, list[str]] = {}
    with project.step(context.retry_number) as settings:
        for repository in chosen_repositories(context, settings):
            if (failure := left_out(repository_work(settings.paths.work, repository.name))) is not None:
                for key in context.selected_asset_keys:
                    context.add_asset_metadata({"left_out": failure.line()}, key, repository.name)
                continue
            started = time.perf_counter()
            made = stage(repository, settings, logged(context))
            seconds = round(time.perf_counter() - started, 3)
            for asset, metadata in made.items():
                context.add_asset_metadata({**metadata, "seconds": seconds}, asset, repository.name)
                digests.setdefault(asset, []).append(metadata["sha256"])
    return tuple(
        dg.MaterializeResult(asset_key=key, data_version=content_version(digests.get(key.to_user_string(), [])))
        for key in sorted(context.selected_asset_keys)
    )


def content_version(digests: Sequence[str]) -> dg.DataVersion:
    """Return the data version of what a step made for its partitions.

    Dagster keeps one data version for all partitions of a step. For a single partition it is the digest of its content;
    for several it changes as soon as one of them does.

    Args:
        digests: Digest of the content of each partition, in the order of the partitions.

    Returns:
        The data version.
    """
    together = digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
    return dg.DataVersion(together)


def once(
    context: dg.AssetExecutionContext, project: Project, stage: Callable[[Settings, Progress], Mapping[str, Any]]
) -> dg.MaterializeResult:
    """Run a stage for the whole bundle; the ``digest`` in its metadata becomes the data version."""
    with project.step(context.retry_number) as settings:
        started = time.perf_counter()
        metadata = stage(settings, logged(context))
    seconds = round(time.perf_counter() - started, 3)
    return dg.MaterializeResult(
        metadata={**metadata, "seconds": seconds}, data_version=dg.DataVersion(metadata["digest"])
    )


def chosen_repositories(context: dg.AssetExecutionContext, settings: Settings) -> list[RepositorySettings]:
    """Return the repositories of the run's partitions.

    Args:
        context: Context of the step.
        settings: Settings of the run.

    Returns:
        Settings by repository, in the order of the partitions.

    Raises:
        InvalidArgumentError: The run names no partition, or one that the settings do not name.
    """
    known = repositories_by_name(settings.sources.repositories)
    if not (context.has_partition_key or context.has_partition_key_range):
        raise InvalidArgumentError(
            "the run names no partition", suggestion="choose repositories where you launch it, or start the schedule"
        )
    unknown = [key for key in context.partition_keys if key not in known]
    if unknown:
        raise InvalidArgumentError(
            f"the settings name no repository {', '.join(unknown)}",
            suggestion=f"choose among {', '.join(known)}; the sensor repository_partitions deletes obsolete partitions",
        )
    return [known[key] for key in context.partition_keys]


def tried_names(context: dg.AssetExecutionContext) -> set[str]:
    """Return the partitions of the run that a step without partitions is in; all where it names none."""
    keys, tags = context.instance.get_dynamic_partitions(PARTITIONS), context.run.tags
    first, last = (tags.get(name) or tags.get("dagster/partition", "") for name in RANGE_TAGS)
    if first not in keys or last not in keys:
        return set(keys)
    return set(keys[keys.index(first) : keys.index(last) + 1])


def logged(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> Progress:
    """Return progress for the run's log: an entry when a piece of work ends, and every ten seconds until then."""
    last = time.monotonic()

    def show(what: str, done: int, total: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= _LOG_EVERY_S:
            last = time.monotonic()
            context.log.info(f"{what}: {done:,} of {total:,}")

    return show


GPU_CHECK = "gpu_is_used"
"""Name of the check of assets for which the settings ask for a GPU."""


def gpu_check(asset: str) -> dg.AssetCheckSpec:
    """Return the check of an asset for which the settings ask for a GPU; without such a setting it has none."""
    return dg.AssetCheckSpec(
        GPU_CHECK,
        asset=asset,
        description="The GPU that the settings ask for did the work, or there was none to do. Where the CPU did it, "
        "the check says why: a warning.",
    )


def gpu_result(asset: str, uses: "Sequence[DeviceUse]", nothing: str) -> dg.AssetCheckResult:
    """Return the result of `GPU_CHECK`.

    Args:
        asset: The asset.
        uses: Devices that did the work of the run.
        nothing: Sentence for a run without any work.

    Returns:
        The result, which warns where a GPU was asked for and not used.
    """
    fallbacks = list(dict.fromkeys(use.sentence() for use in uses if use.fell_back))
    sentences = fallbacks or list(dict.fromkeys(use.sentence() for use in uses))
    return dg.AssetCheckResult(
        passed=not fallbacks,
        asset_key=asset,
        check_name=GPU_CHECK,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(sentences) or nothing,
        metadata={"found": len(fallbacks), "allowed": 0, "devices": list(dict.fromkeys(use.device for use in uses))},
    )


def device_metadata(uses: "Sequence[DeviceUse]") -> dict[str, str]:
    """Return the devices that did a piece of work, and why a GPU that was asked for did not."""
    reasons = "; ".join(dict.fromkeys(use.reason for use in uses if use.fell_back))
    return {
        "device": ", ".join(dict.fromkeys(use.device for use in uses)),
        **({"device_reason": reasons} if reasons else {}),
    }


def described(function: str) -> str:
    """Return a pipeline function's docstring without its parameters, read without importing the libraries it needs.

    >>> described("publish.publish.publish_verified").splitlines()[0]
    'Publish the version that passed verification; a version equal to CURRENT is dropped instead.'
    """
    module, _, name = function.rpartition(".")
    spec = find_spec(f"codequarry.pipelines.{module}")
    assert spec is not None and spec.origin is not None, module
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    paragraphs = (ast.get_docstring(found) or "").split("\n\n")
    return "\n\n".join(
        paragraph for paragraph in paragraphs if not re.match(r"(Args|Returns|Raises|Yields):\n|[a-z_]+: ", paragraph)
    )
