"""The loop of a watch: changes are collected until it is quiet, then a version is published.

While a version is built, the system's notifications are kept for the next round. A complete version over a large delta
is built while nothing changes, see `compaction`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from watchfiles import watch

from codequarry.pipelines.cli.watch.changes import Files, Head, describe_round, differences, publish_changes, read_files
from codequarry.pipelines.cli.watch.compaction import Compactor
from codequarry.pipelines.cli.watch.plan import Plan
from codequarry.pipelines.cli.watch.watched_tree import WatchedTree, is_empty
from codequarry.pipelines.gates.accept import MAX_REASON_CHARS
from codequarry.pipelines.run import IndexReport
from codequarry.pipelines.sources.earlier import remember
from codequarry.pipelines.stack.base_version import KeptSources
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import (
    CodequarryError,
    GateError,
    InvalidArgumentError,
    MissingExtraError,
    SourceError,
    UnavailableError,
)
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.trust.git_head import head_branch_of
from codequarry.serving.files.integrity import current_manifest

QUIET_S, LONGEST_S = 0.05, 2.0
"""A round begins when nothing changed for so long, or so long after the first change."""
REBASE_QUIET_S = 0.2
"""The same between the commits of a rebase."""
GIT_S = 10.0
"""A round waits at most so long for git to release its index, or for a rebase to be quiet."""
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
_STEP_MS, _GROUP_MS, _TICK_MS, _POLL_MS = 50, 100, 200, 2_000
_FEW_FILES = 20
"""When more files change at once, their times are not looked at."""
_ROOTS_S = 1.0

Events = Generator[set[Path], None, None]
Say = Callable[[str], None]


@dataclass(slots=True)
class Burst:
    """Changes since the last round."""

    paths: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Changed paths by repository."""
    moved: set[str] = field(default_factory=set[str])
    """Repositories of which git may be on another commit."""
    first: float = 0.0
    last: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.paths or self.moved)

    def add(self, name: str, paths: Iterable[str], *, moved: bool, now: float) -> None:
        """Take changes of a repository."""
        if not self:
            self.first = now
        self.last = now
        if paths := set(paths):
            self.paths.setdefault(name, set()).update(paths)
        if moved:
            self.moved.add(name)


class Rounds:
    """The rounds of a watch.

    Args:
        plan: What is watched.
        say: Prints a line about a version.
        note: Prints a sentence about anything else.
    """

    def __init__(self, plan: Plan, say: Say, note: Say) -> None:
        self._settings, self._trees = plan.settings, plan.trees
        self._say, self._note = say, note
        self._burst = Burst()
        self._compactor = Compactor(plan.settings)
        self._kept = KeptSources()
        self._files: Files = {}
        published = current_manifest(BundleRoot(plan.settings.bundle.root))
        sources = published.sources if published is not None else ()
        self._heads = {each.name: Head(each.commit, each.dirty) for each in sources}
        self._error = ""
        """Sentence of the last error; "" after a round without one."""
        self._retry_at, self._retry_s = float("inf"), FIRST_RETRY_S
        self._stale_locks: set[tuple[str, int]] = set()
        self._roots = self._identities()
        self._branches: dict[str, str] = {}
        """Branch of each repository that is remembered: requests are answered by it."""
        self.version = ""
        """Version that CURRENT names, as far as is known here."""

    def run(self, start: Callable[[Rounds], None]) -> None:
        """Watch until KeyboardInterrupt.

        Args:
            start: Called once, when changes are seen already: makes the first version and says that the watch begins.
        """
        started = False
        while True:
            try:
                with closing(self._open_events()) as events:
                    for paths in events:
                        if not started:
                            started = True
                            start(self)
                        self._take(paths)
                        if self._is_replaced():
                            break  # to open the notifications anew
                        if self._is_due():
                            self.publish()
                        elif not self._burst:
                            self._compact()
            except FileNotFoundError:  # a root went again, just now
                time.sleep(_ROOTS_S)

    def publish(self, progress: Progress = silent) -> None:
        """Publish what the repositories hold now; an error is said, and the next round tries again.

        Args:
            progress: Told of the work done.

        Raises:
            InvalidArgumentError: The first round cannot be made with these settings.
            MissingExtraError: The first round needs a library that is not installed.
        """
        self._compactor.stop()
        began = self._burst.first if self._burst else time.monotonic()
        self._burst, self._retry_at = Burst(), float("inf")
        try:
            accept = self._reason_to_accept()
            report = self._index(progress, accept)
        except GateError as error:
            self._fail(error, "the watch waits for the next change")
        except CodequarryError as error:
            if isinstance(error, InvalidArgumentError | MissingExtraError) and not self.version:
                raise
            self._retry_at = time.monotonic() + self._retry_s
            self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
            self._fail(error, "the watch tries again")
        else:
            self._succeed(report, time.monotonic() - began)
            self._compactor.note_version(report.manifest, accept)

    def remember(self) -> None:
        """Remember the places of the repositories for later runs; a note says where that fails."""
        try:
            remember(self._settings)
        except UnavailableError as error:
            self._note(f"note: {error.message}; the next run cannot keep these repositories by itself")

    def _compact(self) -> None:
        """Go on with a complete version, and say how it ended."""
        if (ended := self._compactor.look()) is None:
            return
        if ended.version:
            self.version = ended.version
            self._say(ended.sentence)
        else:
            self._note(f"note: {ended.sentence}")

    def _reason_to_accept(self) -> str:
        """Return why checks may fail that compare with CURRENT: git is on another commit; "" when it is not.

        Whoever goes to another commit means what that changes; a tree that loses files without one may be broken.
        """
        moved = ", ".join(f"{tree.name} {tree.commit()[:12]}" for tree in self._trees if self._has_moved(tree))
        return f"the watch follows {moved}"[:MAX_REASON_CHARS] if moved else ""

    def _index(self, progress: Progress, accept: str) -> IndexReport:
        for tree in self._trees:
            if tree.identity() is None:  # the state may lie in it, and would be made anew
                self._roots = self._identities()
                raise SourceError(f"{tree.root} is gone", suggestion="put it back, or start a watch of what is there")
        try:
            return publish_changes(self._settings, progress, accept=accept, kept=self._kept)
        except OSError as error:
            if isinstance(error, CodequarryError):
                raise
            raise_if_exhausted(error, "no version can be made now")
            found = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
            raise UnavailableError(found, suggestion="check that the path is there, and has space left") from error

    def _fail(self, error: CodequarryError, follows: str) -> None:
        # The version that was not published has another name each time.
        sentence = f"{error.message}; {follows}"
        kind = type(error).__name__ if isinstance(error, GateError) else sentence
        if kind != self._error:
            self._note(f"error: {sentence}")
            if error.suggestion:
                self._note(f"try: {error.suggestion}")
        self._error = kind

    def _succeed(self, report: IndexReport, seconds: float) -> None:
        self._follow_branches()
        heads = {each.name: Head(each.commit, each.dirty) for each in report.snapshots}
        if report.manifest.version != self.version:  # another process may have published it
            files = read_files(self._settings, report)
            if self._files and not report.unchanged:
                pairs = {name: (self._heads.get(name), head) for name, head in heads.items()}
                self._say(describe_round(differences(self._files, files, pairs), report, seconds))
            self._files = files
        if self._error and report.unchanged:
            self._note("the index is up to date again")
        for warning in report.warnings:
            self._note(f"warning: {warning}")
        self._heads, self._error, self._retry_s = heads, "", FIRST_RETRY_S
        self.version = report.manifest.version

    def _follow_branches(self) -> None:
        """Remember the branches that CURRENT holds now, or requests would take it for the branch before a switch."""
        branches = {tree.name: head_branch_of(tree.root) for tree in self._trees}
        if branches != self._branches:
            self._branches = branches
            self.remember()

    def _take(self, paths: set[Path]) -> None:
        """Keep of the changed paths those that matter."""
        if not paths:
            return
        now = time.monotonic()
        for tree in self._trees:
            if tree.root in paths:  # moved away, and perhaps back again
                self._roots = [None] * len(self._trees)
                self._burst.add(tree.name, [""], moved=False, now=now)
            inside, moved = tree.sift(paths)
            if inside or moved:
                self._burst.add(tree.name, inside, moved=moved, now=now - _seconds_since(tree.root, inside))
                self._compactor.stop()

    def _is_due(self) -> bool:
        """Return whether a round begins now."""
        now = time.monotonic()
        if now >= self._retry_at:
            return True
        if not self._burst:
            return False
        age = now - self._burst.first
        trees = [tree for tree in self._trees if tree.name in self._burst.paths or tree.name in self._burst.moved]
        rebasing = any(tree.git is not None and tree.git.is_rebasing() for tree in trees)
        quiet, longest = (REBASE_QUIET_S, GIT_S) if rebasing else (QUIET_S, LONGEST_S)
        if now - self._burst.last < quiet and age < longest:
            return False
        if self._waits_for_git(trees, age) or (age < LONGEST_S and self._has_emptied(trees)):
            return False
        if not self._burst.paths and not any(map(self._has_moved, trees)):
            self._burst = Burst()  # a branch that is not checked out, or one of the same commit
            self._follow_branches()
            return False
        return True

    def _has_moved(self, tree: WatchedTree) -> bool:
        """Return whether git is on another commit than the one that CURRENT holds."""
        before = self._heads.get(tree.name)
        return before is not None and before.commit != tree.commit()

    def _waits_for_git(self, trees: list[WatchedTree], age: float) -> bool:
        """Return whether git writes a work tree; a lock that stays is left by a git that was killed."""
        locks = {lock for tree in trees if tree.git is not None and (lock := tree.git.index_lock()) is not None}
        if not locks - self._stale_locks:
            return False
        if age < GIT_S:
            return True
        for file, _ in sorted(locks - self._stale_locks):
            self._note(f"note: {file} is there for {GIT_S:g} s, and is not waited for any more")
        self._stale_locks |= locks
        return False

    def _has_emptied(self, trees: list[WatchedTree]) -> bool:
        """Return whether an indexed file has no bytes now: most likely somebody is about to write it."""
        return any(
            path in self._files.get(tree.name, {}) and is_empty(tree.root / path)
            for tree in trees
            for path in self._burst.paths.get(tree.name, ())
        )

    def _identities(self) -> list[tuple[int, int] | None]:
        self._looked_at_roots = time.monotonic()
        return [tree.identity() for tree in self._trees]

    def _is_replaced(self) -> bool:
        """Return whether a root is another folder than before, which the system's notifications do not follow."""
        if time.monotonic() - self._looked_at_roots < _ROOTS_S:
            return False
        now = self._identities()
        if now == self._roots:
            return False
        for tree, before, after in zip(self._trees, self._roots, now, strict=True):
            if before != after:
                self._burst.add(tree.name, [""], moved=False, now=time.monotonic())
        self._roots = now
        return None not in now

    def _open_events(self) -> Events:
        """Yield changed paths; an empty set where nothing changed for a moment."""
        folders = list(dict.fromkeys(folder for tree in self._trees for folder in tree.folders))
        self._roots = self._identities()
        try:
            yield from _read_events(folders, polling=None)
        except (RuntimeError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            self._note(
                f"note: the system gives no notifications for these folders ({error}), so they are looked at every "
                f"{_POLL_MS / 1000:g} s; on Linux a larger fs.inotify.max_user_watches ends that"
            )
            yield from _read_events(folders, polling=True)


def _seconds_since(root: Path, paths: Collection[str]) -> float:
    """Return for how many seconds files have not been written, as far as a round waits for it; 0 for many files.

    Notifications come later than the changes. What is gone, such as the file that an editor renames, does not count.
    """
    written: list[float] = []
    for path in paths if len(paths) <= _FEW_FILES else ():
        with suppress(OSError):
            written.append((root / path).lstat().st_ctime)
    return min(max(0.0, time.time() - max(written)), REBASE_QUIET_S) if written else 0.0


def _read_events(folders: list[Path], *, polling: bool | None) -> Events:
    events = watch(
        *folders, watch_filter=None, step=_STEP_MS, debounce=_GROUP_MS, rust_timeout=_TICK_MS, yield_on_timeout=True,
        force_polling=polling, poll_delay_ms=_POLL_MS, ignore_permission_denied=True, debug=False,
    )  # fmt: skip
    with closing(events):
        for changes in events:
            yield {Path(path) for _, path in changes}
