"""Further refs of ``codequarry index``: branches and linked work trees, each with a version over that of CURRENT."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from codequarry.pipelines.cli.census import plain
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.sources.earlier import remembered_repository
from codequarry.pipelines.sources.further_refs import (
    FurtherRef,
    RefPlan,
    plan_refs,
    ref_label,
    remember_refs,
    split_refs,
)
from codequarry.pipelines.store.processes import ending_groups
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.refs import RefName, list_refs
from codequarry.schemas.errors import SourceError, UnavailableError
from codequarry.schemas.settings.load import RepositorySettings, Settings, load_settings
from codequarry.schemas.trust.git_index import git_top
from codequarry.schemas.trust.source_places import read_places
from codequarry.schemas.trust.work_trees import indexed_main_tree
from codequarry.schemas.wording import counted

if TYPE_CHECKING:
    from codequarry.pipelines.stack.ref_versions import RefReport


@dataclass(frozen=True, slots=True)
class WorkTreeRef:
    """The linked work tree around the current folder, as a further ref of what its main one has indexed."""

    settings: Settings
    """Settings of the main work tree, with the repositories that CURRENT holds."""
    ref: FurtherRef


def without_further(settings: Settings) -> tuple[Settings, tuple[FurtherRef, ...]]:
    """Return the settings with each repository once, and the further refs that they list; raises as `split_refs`."""
    once, further = split_refs(settings.sources.repositories)
    sources = settings.sources.model_copy(update={"repositories": once})
    return settings.model_copy(update={"sources": sources}), further


def work_tree_ref(here: Path) -> WorkTreeRef | None:
    """Return the linked work tree around a folder, when the index of its main work tree answers there.

    Args:
        here: The folder.

    Returns:
        The work tree as a ref; None when there is none, and where the main one indexed something else.

    Raises:
        SourceError: The work tree has no name: a detached one in a folder that no ref can be called like.
    """
    main = indexed_main_tree(here)
    top = git_top(Path(os.path.realpath(here)))
    if main is None or top is None:
        return None
    settings = load_settings(None, look="above")
    places = read_places(settings.bundle.root)
    repositories = [each for name, value in places.items() if (each := remembered_repository(name, value)) is not None]
    found = [each for each in repositories if each.path is not None and os.path.realpath(each.path) == str(main)]
    if not found:
        return None
    own = RepositorySettings(name=found[0].name, path=top)
    label = ref_label(own)
    if not label:
        raise SourceError(
            f"{top} is on no branch, and its folder cannot name a ref", suggestion="check out a branch there"
        )
    sources = settings.sources.model_copy(update={"repositories": tuple(repositories)})
    settings = settings.model_copy(update={"sources": sources})
    return WorkTreeRef(settings, FurtherRef(RefName(own.name, label), own))


def publish_refs(
    settings: Settings, asked: Iterable[FurtherRef], *, only: bool = False, progress: Progress | None = None
) -> list[RefReport]:
    """Index further refs: those asked for, and those that are indexed already.

    Args:
        settings: Settings with the repositories as CURRENT holds them.
        asked: Refs that were asked for.
        only: No other ref stays.
        progress: Told of the work done; by default, progress bars show it.

    Returns:
        What became of each ref.

    Raises:
        CodequarryError: As ``codequarry index`` does.
    """
    asked = tuple(asked)
    plan = plan_refs(settings, asked, only=only)
    return _publish(settings, plan, [each.name for each in asked], progress)


def publish_work_tree(tree: WorkTreeRef, progress: Progress | None = None) -> list[RefReport]:
    """Index one work tree as a ref; CURRENT and the other refs are as they were. Raises as `publish_refs`."""
    root = BundleRoot(tree.settings.bundle.root)
    others = {name: "" for name in list_refs(root) if name != tree.ref.name}
    return [
        report
        for report in _publish(tree.settings, RefPlan((tree.ref,), {}, others), [tree.ref.name], progress)
        if report.index is not None
    ]


def _publish(settings: Settings, plan: RefPlan, asked: Iterable[RefName], progress: Progress | None) -> list[RefReport]:
    if not (plan.refs or plan.leaving or plan.kept):
        return []
    from codequarry.pipelines.stack.ref_versions import index_refs

    with ending_groups(), nullcontext() if progress else Bars() as bars:
        show = progress or (bars.show if bars else silent)
        reports = index_refs(settings, plan, show, asked)
    left = {report.name for report in reports if report.left}
    try:
        refs = [each for each in plan.refs if each.name not in left]
        remember_refs(settings.bundle.root, refs, plan.kept)
    except UnavailableError as error:
        console.print(f"note: {error.message}; the next run cannot keep these refs by itself", highlight=False)
    return reports


def print_refs(reports: Iterable[RefReport]) -> None:
    """Print what became of each further ref on standard error."""
    for report in reports:
        line = Text.assemble("ref ", (str(report.name), "bold"), f": {plain(_fate(report))}")
        console.print(line, highlight=False, soft_wrap=not console.is_terminal)


def _fate(report: RefReport) -> str:
    index = report.index
    if index is None:
        return f"{'dropped' if report.left else 'kept as it is'}: {report.reason}"
    verb = "unchanged" if index.unchanged else "published"
    text = f"{verb} {index.manifest.version}"
    if (stacked := index.stacked) is not None:
        text += f", over {stacked.base}: {counted(stacked.changed, 'file')} changed, {stacked.deleted:,} deleted"
    return text + (f"; complete: {report.reason}" if report.reason else "")
