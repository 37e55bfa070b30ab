"""Adaptation of the encoder to the repositories of the settings, from their snapshots and histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from codequarry.pipelines.adapt.train import FileChange, adapt
from codequarry.pipelines.embed.encoders import checked_base
from codequarry.pipelines.git.history import Commit, file_versions, read_history
from codequarry.pipelines.git.remote import clone_folder
from codequarry.pipelines.secrets.redaction import open_redactor
from codequarry.pipelines.sources.snapshot import read_contents, read_snapshot, snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import Progress, repository_work, silent, working
from codequarry.pipelines.syntax.workers import SourceFile
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.serving.encoders.spec import Adaptation


def tune_encoder(
    settings: Settings, target: Path, *, budget_s: float = 60.0, progress: Progress = silent
) -> Adaptation:
    """Adapt the static encoder of the settings to their repositories; see `adapt`.

    Args:
        settings: Settings with the repositories.
        target: Folder of the new encoder.
        budget_s: Seconds that training may take on one core.
        progress: Called with (task, units done, units in all).

    Returns:
        Evaluation of the new encoder.

    Raises:
        InvalidArgumentError: The settings name another kind of encoder, or there is too little to learn from.
        MissingExtraError: The extra ``train`` is needed.
        SourceError: A repository cannot be read.
    """
    require_tuning(settings, "codequarry tune encoder")
    repositories = repositories_by_name(settings.sources.repositories)
    with working(settings):
        for repository in repositories.values():
            snapshot_repository(repository, settings, progress)
        return adapted(histories(settings), settings, target, budget_s=budget_s, progress=progress)


def require_tuning(settings: Settings, what: str) -> None:
    """Raise an error unless the encoder of the settings can be adapted here.

    Args:
        settings: Settings with the encoder.
        what: Name of the feature, for messages.

    Raises:
        InvalidArgumentError: The encoder is not a static one.
        MissingExtraError: The extra ``train`` is needed.
    """
    if settings.embedding.model != "static":
        raise InvalidArgumentError(
            f"[embedding] model is {settings.embedding.model}, expected static", suggestion="only static ones are tuned"
        )
    if find_spec("scipy") is None:
        raise missing_extra(what, "train", missing="scipy")


@dataclass(frozen=True, slots=True)
class History:
    """A repository of the work folder, and the changes of its files by recent commits."""

    name: str
    folder: Path
    """Folder of its git repository."""
    languages: dict[str, str]
    """Language of each indexed file, by path."""
    commits: tuple[Commit, ...]
    """Recent commits; empty without git, and for a clone that is one commit deep."""


def histories(settings: Settings) -> list[History]:
    """Return the history of every repository of the settings, by name.

    Args:
        settings: Settings with the repositories.

    Returns:
        Histories in the order of the names.

    Raises:
        SourceError: The snapshot stage has not run.
    """
    return [_history(one, settings) for _, one in sorted(repositories_by_name(settings.sources.repositories).items())]


def _history(repository: RepositorySettings, settings: Settings) -> History:
    work = repository_work(settings.paths.work, repository.name)
    rows = read_table(work.require(work.census, "snapshot"), ["path", "lang", "skip_reason"]).to_pylist()
    languages = {row["path"]: row["lang"] for row in rows if not row["skip_reason"]}
    if repository.path is None:
        folder = clone_folder(parse_git_url(repository.url).public, settings.paths.store)
    else:
        folder = repository.path.resolve()
    commit = read_snapshot(work).commit
    commits = read_history(folder, commit, languages.keys()) if commit else []
    return History(repository.name, folder, languages, tuple(commits))


def adapted(
    found: list[History], settings: Settings, target: Path, *, budget_s: float = 60.0, progress: Progress = silent
) -> Adaptation:
    """Adapt the encoder of the settings to the snapshots in the work folder; see `adapt`.

    Args:
        found: Histories of the repositories.
        settings: Settings with the encoder.
        target: Folder of the new encoder.
        budget_s: Seconds that training may take on one core.
        progress: Called with (task, units done, units in all).

    Returns:
        Evaluation of the new encoder.

    Raises:
        InvalidArgumentError: As `adapt` does.
    """
    return adapt(
        _files(found, settings), checked_base(settings), target,
        changes=_changes(found, settings), budget_s=budget_s, progress=progress,
    )  # fmt: skip


def _files(found: list[History], settings: Settings) -> Iterator[SourceFile]:
    for history in found:
        for path, lang, data in read_contents(repository_work(settings.paths.work, history.name)):
            yield f"{history.name}/{path}", lang, data


def _changes(found: list[History], settings: Settings) -> Iterator[FileChange]:
    with open_redactor(settings) as redactor:
        for history in found:
            if history.commits:
                for said, path, *versions in file_versions(history.folder, history.commits):
                    old, new = (each.content for each in redactor.redact([(path, data) for data in versions]))
                    message = redactor.text(said)
                    yield FileChange(message, f"{history.name}/{path}", history.languages[path], old, new)
