"""One round of the watch: a version of what the repositories hold now, and what it changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from codequarry.pipelines.run import IndexReport, index_repositories
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.stack.base_version import KeptSources
from codequarry.pipelines.stack.build import NotStacked, index_changes
from codequarry.pipelines.store.workspace import Progress, repository_work, silent
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.wording import counted

_SHARES = 3
"""A delta version of a watch may hold so many times the share beyond which a complete version follows."""
_NAMED_FILES = 3

Files = dict[str, dict[str, str]]
"""Digests of the indexed files, by repository and path."""


def publish_changes(
    settings: Settings, progress: Progress = silent, *, accept: str = "", kept: KeptSources | None = None
) -> IndexReport:
    """Publish a version of what the repositories hold now, unless CURRENT holds it already.

    It is a delta version unless most files changed since the last complete one: nobody who saves waits for a complete
    one, which is built when it is quiet. Nor for answers of both versions to be compared, as those of the complete one
    are. The watch says only that something changed; what changed is decided here.

    Args:
        settings: Settings of the watch.
        progress: Told of the work done.
        accept: Reason for publishing though checks fail that compare with CURRENT.
        kept: Repositories of the base, from one round to the next.

    Returns:
        What was done.

    Raises:
        CodequarryError: See ``errors``; after any error CURRENT is as it was.
    """
    share = min(1.0, _SHARES * settings.bundle.delta_share)
    bundle = settings.bundle.model_copy(update={"delta_share": share, "delta_hours": 0.0})
    retrieval = settings.retrieval
    if retrieval.min_changed_share:  # 0 asks for a comparison each time
        most = max(retrieval.min_changed_share, share)
        retrieval = retrieval.model_copy(update={"min_changed_share": most})
    changed = settings.model_copy(update={"bundle": bundle, "retrieval": retrieval})
    report = index_changes(changed, progress, accept=accept, kept=kept)
    return index_repositories(settings, progress, accept=accept) if isinstance(report, NotStacked) else report


def read_files(settings: Settings, report: IndexReport) -> Files:
    """Return the files that a run has indexed, by repository.

    Args:
        settings: Settings of the run.
        report: What it did.

    Returns:
        Their digests.
    """
    if report.files is not None:
        return {name: {**files} for name, files in report.files.items()}
    found: Files = {}
    for name in repositories_by_name(settings.sources.repositories):
        census = read_table(repository_work(settings.paths.work, name).census, ["path", "sha256"])
        pairs = zip(census["path"].to_pylist(), census["sha256"].to_pylist(), strict=True)
        found[name] = {path: digest for path, digest in pairs if digest}
    return found


@dataclass(frozen=True, slots=True)
class Head:
    """Place of a work tree in its history."""

    commit: str
    dirty: bool

    def news(self, before: Head | None) -> str:
        """Return what is new about it, in words; "" for nothing.

        >>> Head("0123456789abcdef", False).news(Head("fedcba9876543210", False))
        'commit 0123456789ab'
        """
        if before is None or before == self or not self.commit:
            return ""
        if before.commit != self.commit:
            return f"commit {self.commit[:12]}"
        return "with uncommitted changes now" if self.dirty else "as committed now"


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences between two versions of one repository."""

    name: str
    changed: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])
    state: str = ""
    """The commit, when it is another one; or whether the files are as committed, when that is news."""

    def sentence(self) -> str:
        """Return the difference in words.

        >>> Difference("app", ["a.py"], [], ["b.py", "c.py"], "commit 0123456789ab").sentence()
        'app: 1 file changed, 2 deleted (a.py, b.py, c.py), commit 0123456789ab'
        """
        kinds = (("changed", self.changed), ("added", self.added), ("deleted", self.deleted))
        counts = [f"{len(paths):,} {kind}" for kind, paths in kinds if paths]
        paths = [path for _, some in kinds for path in some]
        if counts:
            number, _, kind = counts[0].partition(" ")
            counts[0] = f"{counted(int(number.replace(',', '')), 'file')} {kind}"
        words = ", ".join(counts) + (f" ({', '.join(paths)})" if 0 < len(paths) <= _NAMED_FILES else "")
        return f"{self.name}: {', '.join(filter(None, (words, self.state)))}"


def differences(before: Files, after: Files, heads: dict[str, tuple[Head | None, Head]]) -> list[Difference]:
    """Return what changed, by repository.

    Args:
        before: Files of the version before.
        after: Files of the version now.
        heads: Heads before and now, by repository.

    Returns:
        A difference for each repository that has one.
    """
    found: list[Difference] = []
    for name, now in after.items():
        then = before.get(name, {})
        earlier, head = heads[name]
        one = Difference(
            name,
            sorted(path for path in now.keys() & then.keys() if now[path] != then[path]),
            sorted(now.keys() - then.keys()),
            sorted(then.keys() - now.keys()),
            head.news(earlier),
        )
        if one.changed or one.added or one.deleted or one.state:
            found.append(one)
    return found


def describe_round(found: list[Difference], report: IndexReport, seconds: float) -> str:
    """Return the line of a version.

    Args:
        found: What changed.
        report: What was done.
        seconds: Seconds from the first change to the publish.

    Returns:
        The line, without the time of day.
    """
    what = "; ".join(one.sentence() for one in found) or "no indexed file changed, but the skipped ones did"
    return f"{what}; {counted(report.manifest.counts.chunks, 'chunk')}, published in {seconds:.1f} s"
