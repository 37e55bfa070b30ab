"""The sensor that looks at the git heads, and starts a run for exactly the repositories whose head is another.

Compared are the commits of CURRENT, the truth about what is served. A head is asked for once: when its run fails, the
next commit, the schedule or a person is what starts another, and a rollback is not undone.
"""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from codequarry.assets.automation import reindex, whole
from codequarry.assets.partitions import sync_partitions
from codequarry.assets.project import Project
from codequarry.pipelines.sources import named
from codequarry.pipelines.workspace import repository_work
from codequarry.schemas.automation_settings import AutomationSettings
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.integrity import current_manifest
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.settings import Settings

CHANGED_TAG = "codequarry/changed"
"""On a run: the repositories whose head was another."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 60.0, 3600.0


@dataclass(frozen=True)
class Watch:
    """What the sensor remembers from tick to tick: its cursor."""

    requested: dict[str, str] = field(default_factory=dict)
    """The last head of each repository for which a run was requested."""
    failing: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Repositories that did not answer: how often in a row, and when they are asked again."""

    @classmethod
    def parse(cls, cursor: str | None) -> "Watch":
        """What a cursor holds; nothing when there is none."""
        held: dict[str, Any] = json.loads(cursor) if cursor else {}
        failing = {name: (count, until) for name, (count, until) in held.pop("failing", {}).items()}
        return cls(**held, failing=failing)

    def cursor(self) -> str:
        """As Dagster keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    def waiting(self, name: str, now: float) -> bool:
        """Whether it is too early to ask a repository again."""
        return self.failing.get(name, (0, 0.0))[1] > now


def heads_to_index(
    settings: Settings, watch: Watch, now: float, folder: Path
) -> tuple[dict[str, str], Watch, dict[str, str]]:
    """(heads to index by repository, what to remember, problems by repository).

    now: seconds since the epoch. folder: any that exists.
    """
    from codequarry.pipelines.heads import read_heads

    known = named(settings.sources.repositories)
    heads = read_heads([each for name, each in known.items() if not watch.waiting(name, now)], folder)
    served = _served(settings)
    changed = {
        name: commit
        for name, commit in heads.commits.items()
        if commit and commit != served.get(name) and commit != watch.requested.get(name)
    }
    failing = {name: held for name, held in watch.failing.items() if watch.waiting(name, now) and name in known}
    for name in heads.problems:
        count = watch.failing.get(name, (0, 0.0))[0] + 1
        failing[name] = (count, now + min(_FIRST_WAIT_S * 2 ** (count - 1), _LONGEST_WAIT_S))
    requested = {name: head for name, head in watch.requested.items() if name in known} | changed
    return changed, Watch(requested, failing), heads.problems


def others_are_stale(settings: Settings) -> bool:
    """Whether what the work folder holds of unchanged repositories cannot be staged, so that all have to be read.

    It follows from settings and program, which CURRENT names, and may have been removed.
    """
    from codequarry.pipelines.tools import tools_in_use

    try:
        manifest = current_manifest(BundleRoot(settings.bundle.root))
    except UnavailableError:
        return True
    made = (settings.index_hash(), tools_in_use(settings))
    works = (repository_work(settings.paths.work, name) for name in named(settings.sources.repositories))
    return (
        manifest is None
        or (manifest.settings_sha256, manifest.tools) != made
        or any(not work.snapshot.is_file() for work in works)
    )


def _served(settings: Settings) -> dict[str, str]:
    """Commits of CURRENT by repository; none when nothing whole is published."""
    try:
        manifest = current_manifest(BundleRoot(settings.bundle.root))
    except UnavailableError:
        return {}
    return {source.name: source.commit for source in manifest.sources} if manifest is not None else {}


def head_sensor(automation: AutomationSettings) -> dg.SensorDefinition:
    """The sensor; interval and whether it starts by itself are the settings'."""

    @dg.sensor(
        name="git_heads",
        job=reindex,
        description="Asks git for the head of each repository, and starts one run for those whose head CURRENT does "
        "not hold. A repository that does not answer is named, and asked again after 1, 2, 4, … 60 minutes. Folders "
        "without git have no head: the schedule reads them.",
        minimum_interval_seconds=automation.watch_interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING if automation.watch_heads else dg.DefaultSensorStatus.STOPPED,
    )
    def watch_heads(context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]) -> dg.SensorResult:
        settings, now = project.settings(), time.time()
        before = Watch.parse(context.cursor)
        changed, after, problems = heads_to_index(settings, before, now, Path(project.settings_file).parent)
        for name, problem in problems.items():
            context.log.warning(f"{name}: {problem}")
        if not changed:
            return dg.SensorResult(skip_reason=_why_not(settings, after, problems, now), cursor=after.cursor())
        keys = sync_partitions(context.instance, settings)
        # Ranges are of neighbours: repositories between two changed ones are read too, and found unchanged.
        places = range(len(keys)) if others_are_stale(settings) else sorted(keys.index(name) for name in changed)
        tags = whole(keys[places[0] : places[-1] + 1]) | {CHANGED_TAG: ", ".join(sorted(changed))}
        # Without a run key: for the same head there is a second run after a forced push there and back.
        return dg.SensorResult(run_requests=[dg.RunRequest(tags=tags)], cursor=after.cursor())

    return watch_heads


def _why_not(settings: Settings, watch: Watch, problems: dict[str, str], now: float) -> str:
    said = [f"{len(settings.sources.repositories) - len(watch.failing)} repositories, no new head"]
    for name, (count, until) in sorted(watch.failing.items()):
        why = f": {problems[name]}" if name in problems else ""
        said.append(f"{name} did not answer {count} times, asked again in {max(until - now, 0) / 60:.0f} min{why}")
    return "; ".join(said)
