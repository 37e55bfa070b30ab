"""Questions mined from repositories, and a bundle to ask them of in which the answers are not given away.

Everything lies below one folder and is made anew, or found unchanged, by each run: ``original`` (what the
repositories hold), ``repositories`` (their indexed files, the documentation of the functions asked for blanked) and
``bundles``. The bundle that is served is neither read nor touched.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from codequarry.pipelines.evaluation.commit_questions import commit_questions
from codequarry.pipelines.measure.doc_questions import Blanks, blanked, doc_questions
from codequarry.pipelines.measure.name_questions import name_questions
from codequarry.pipelines.measure.questions import Question
from codequarry.pipelines.measure.source_tables import Mined
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.secrets.redaction import open_redactor
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import Progress, hide_home, repository_work, silent, working
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.settings.load import BundleSettings, PathsSettings, RepositorySettings, Settings

QUESTIONS = 100
"""Most questions of each kind: documentation, commits, names."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Questions, and the bundle to ask them of."""

    questions: tuple[Question, ...]
    root: Path
    """Bundle root whose CURRENT is the evaluation bundle."""
    notes: tuple[str, ...]
    """Notes on what could not be asked about."""

    @property
    def counts(self) -> dict[str, int]:
        """Questions by kind."""
        return dict(sorted(Counter(question.kind for question in self.questions).items()))


def mine(
    settings: Settings,
    home: Path,
    count: int = QUESTIONS,
    seed: int = 0,
    progress: Progress = silent,
    *,
    sample_bytes: int | None = None,
) -> Prepared:
    """Mine questions from the repositories of the settings and index the repositories without their answers.

    Args:
        settings: Settings of the repositories and indexes.
        home: Folder in which everything is kept.
        count: Most questions of each kind.
        seed: Seed of the drawing; another one draws other questions.
        progress: Told of the work done.
        sample_bytes: Index no more source than that, and leave out questions whose answers do not fit into half of it;
            None for all.

    Returns:
        The questions, and the bundle to ask them of.

    Raises:
        InvalidArgumentError: There is nothing to ask about.
        SourceError: A repository cannot be read.
        CodequarryError: As `index_repositories` does.
    """
    original = _below(settings, home / "original", home / "bundles")
    repositories = repositories_by_name(settings.sources.repositories)
    with working(original):
        hide_home(settings)
        mined: list[Mined] = []
        for repository in repositories.values():
            snapshot = snapshot_repository(repository, original, progress)
            chunk_repository(snapshot.name, original, progress)
            mined.append(Mined(snapshot.name, snapshot, repository_work(original.paths.work, snapshot.name)))
        progress("mining questions", 0, 3)
        by_docs, blanks = doc_questions(mined, count, seed)
        progress("mining questions", 1, 3)
        folders = [(one, repositories[one.name].path) for one in mined]
        by_commits, notes = commit_questions(folders, count, seed, original.chunking)
        with open_redactor(original) as redactor:
            by_commits = [one._replace(query=redactor.text(one.query)) for one in by_commits]
        progress("mining questions", 2, 3)
        by_names = name_questions(mined, count, seed)
        progress("mining questions", 3, 3)
        if not (questions := (*by_docs, *by_commits, *by_names)):
            raise InvalidArgumentError(
                "no question can be mined: no documented function, no commit, no name that is there once",
                suggestion="evaluate on larger repositories, or give questions of your own with --qrels",
            )
        kept = None
        if sample_bytes is not None:
            questions, kept = _sample(mined, questions, sample_bytes)
        copies = [_copy(one, home / "repositories" / one.name, blanks, progress, kept) for one in mined]
    notes += [f"no question of kind {kind}" for kind, made in (("A", by_docs), ("C", by_names)) if not made]
    evaluated = _below(settings, home / "work", home / "bundles")
    listed = tuple(
        RepositorySettings(name=one.name, path=copy, scip=repositories[one.name].scip)
        for one, copy in zip(mined, copies, strict=True)
    )
    sources = evaluated.sources.model_copy(update={"repositories": listed})
    index_repositories(evaluated.model_copy(update={"sources": sources}), progress)
    return Prepared(questions, evaluated.bundle.root, tuple(notes))


def index_folder(name: str, folder: Path, settings: Settings, home: Path, progress: Progress = silent) -> Path:
    """Index a plain folder below ``home``.

    Args:
        name: Name of the repository.
        folder: Folder to index.
        settings: Settings of the indexes.
        home: Folder of the work folder and the bundles.
        progress: Told of the work done.

    Returns:
        Bundle root.

    Raises:
        CodequarryError: As `index_repositories` does.
    """
    own = _below(settings, home / "work", home / "bundles")
    sources = own.sources.model_copy(update={"repositories": (RepositorySettings(name=name, path=folder),)})
    index_repositories(own.model_copy(update={"sources": sources}), progress)
    return own.bundle.root


def _below(settings: Settings, work: Path, root: Path) -> Settings:
    """Return the settings with work and bundles of their own, and the same store.

    Measuring gates are off: these bundles are themselves for measuring, and nobody else is served them.
    """
    own = {
        "paths": PathsSettings(store=settings.paths.store, work=work),
        "bundle": BundleSettings(root=root, keep_versions=2),
        "warp": settings.warp.model_copy(update={"measure": False}),
        "retrieval": RetrievalSettings(enabled=False),
    }
    return settings.model_copy(update=own)


def _sample(
    mined: Sequence[Mined], questions: Sequence[Question], most: int
) -> tuple[tuple[Question, ...], frozenset[tuple[str, str]]]:
    """Draw questions and the files to index for them, by repository and path.

    Half of the bytes may go to files that answer, question by question; others follow in the order of their hashes.
    """
    sizes = {(one.name, path): len(data) for one in mined for path, _, data in one.contents()}
    kept: set[tuple[str, str]] = set()
    answered: list[Question] = []
    left = most
    for question in questions:
        files = {(target.repo, target.path) for target in question.targets}
        needed = sum(sizes.get(file, 0) for file in files - kept)
        if left - needed >= most // 2:
            answered.append(question)
            kept |= files
            left -= needed

    def place(file: tuple[str, str]) -> bytes:
        return hashlib.sha256("/".join(file).encode("utf-8", "surrogatepass")).digest()

    for file in sorted(sizes.keys() - kept, key=place):
        if sizes[file] <= left:
            kept.add(file)
            left -= sizes[file]
    return tuple(answered), frozenset(kept)


def _copy(
    repository: Mined, folder: Path, blanks: Blanks, progress: Progress, kept: frozenset[tuple[str, str]] | None
) -> Path:
    """Write the indexed files of a repository, with blanks, into a folder that holds nothing else.

    Args:
        repository: The repository.
        folder: The folder; it is emptied first.
        blanks: Ranges to blank, by repository and path.
        progress: Told of the files written.
        kept: Files to write, by repository and path; None for all.

    Returns:
        The folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    total = repository.snapshot.files
    for done, (path, _, data) in enumerate(repository.contents(), start=1):
        if _stays_inside(path) and (kept is None or (repository.name, path) in kept):
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(blanked(data, blanks.get((repository.name, path), ())))
        if done % 256 == 0 or done == total:
            progress(f"{repository.name}: blanking", done, total)
    return folder


def _stays_inside(path: str) -> bool:
    """Return whether a path of a commit names a file below the folder it is written to, and none of git's.

    >>> _stays_inside("src/app.py"), _stays_inside("../app.py"), _stays_inside(".GIT/config")
    (True, False, False)
    """
    parts = PurePosixPath(path).parts
    return not path.startswith("/") and not any(part == ".." or part.lower() == ".git" for part in parts)
