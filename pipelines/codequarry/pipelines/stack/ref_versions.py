"""Versions of further refs: a delta over the base of CURRENT where that can be, else a complete version."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from codequarry.pipelines.publish.ref_files import drop_ref
from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.sources.further_refs import FurtherRef, RefPlan
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.stack.build import index_changes
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.refs import RefName
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import Settings

_WORK = "ref"
"""Folder of the work folder for complete versions of refs: the rest of it is that of the base."""


@dataclass(frozen=True, slots=True)
class RefReport:
    """Result of a further ref."""

    name: RefName
    index: IndexReport | None
    """None when it left, or stays as it is."""
    reason: str = ""
    """Reason for that, or for a complete version; "" for a delta version."""
    left: bool = False


def index_refs(
    settings: Settings, plan: RefPlan, progress: Progress = silent, asked: Iterable[RefName] = ()
) -> list[RefReport]:
    """Publish the versions of further refs, and remove the refs that leave.

    Args:
        settings: Settings with the repositories as CURRENT has them.
        plan: The refs.
        progress: Told of the work done.
        asked: Refs that were asked for: an error when one cannot be read. Others leave then.

    Returns:
        What became of each ref.

    Raises:
        CodequarryError: See ``errors``; CURRENT and the refs before are as they were.
    """
    root, wanted = BundleRoot(settings.bundle.root), set(asked)
    reports = [RefReport(name, None, reason) for name, reason in plan.kept.items()]
    leaving = dict(plan.leaving)
    for each in plan.refs:
        try:
            reports.append(_index_ref(each, settings, progress))
        except SourceError as error:
            if each.name in wanted:
                raise
            leaving[each.name] = error.message
    for name, reason in leaving.items():
        drop_ref(root, name)
        reports.append(RefReport(name, None, reason, left=True))
    return sorted(reports, key=lambda report: report.name)


def _index_ref(further: FurtherRef, settings: Settings, progress: Progress) -> RefReport:
    repositories = repositories_by_name(settings.sources.repositories)
    repositories[further.name.repository] = further.repository
    sources = settings.sources.model_copy(update={"repositories": tuple(repositories.values())})
    at_ref = settings.model_copy(update={"sources": sources})
    tried = index_changes(at_ref, progress, ref=further.name)
    if isinstance(tried, IndexReport):
        return RefReport(further.name, tried)
    work = settings.paths.work / _WORK
    paths = settings.paths.model_copy(update={"work": work})
    try:
        report = index_repositories(at_ref.model_copy(update={"paths": paths}), progress, ref=further.name)
    finally:
        shutil.rmtree(work / "repositories", ignore_errors=True)
    return RefReport(further.name, report, tried.reason)
