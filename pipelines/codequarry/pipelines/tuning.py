"""Fitting the encoder to the repositories of the settings, from their snapshots and histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from codequarry.pipelines.chunk_workers import SourceFile
from codequarry.pipelines.encoders import checked_base
from codequarry.pipelines.git_history import Commit, file_versions, read_history
from codequarry.pipelines.git_remote import clone_folder
from codequarry.pipelines.redaction import open_redactor
from codequarry.pipelines.snapshot import read_contents, read_snapshot, snapshot_repository
from codequarry.pipelines.sources import named
from codequarry.pipelines.training.adapt import FileChange, adapt
from codequarry.pipelines.workspace import Progress, repository_work, silent, working
from codequarry.schemas.encoder import Adaptation
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings import RepositorySettings, Settings
from codequarry.schemas.tables import read_table


def tune_encoder(
    settings: Settings, target: Path, *, budget_s: float = 60.0, progress: Progress = silent
) -> Adaptation:
    """Adapt the static encoder of the settings to their repositories; see `adapt`.

    Raises InvalidArgumentError: the settings name another kind of encoder, or there is too little to learn from.
    MissingExtraError: the extra ``train`` is needed. SourceError: a repository cannot be read.
    """
    require_tuning(settings, "codequarry tune encoder")
    repositories = named(settings.sources.repositories)
    with working(settings):
        for repository in repositories.values():
            snapshot_repository(repository, settings, progress)
        return adapted(histories(settings), settings, target, budget_s=budget_s, progress=progress)


def require_tuning(settings: Settings, what: str) -> None:
    """Raises InvalidArgumentError: the encoder is no static one. MissingExtraError: the extra ``train`` is needed."""
    if settings.embedding.model != "static":
        raise InvalidArgumentError(
            f"[embedding] model is {settings.embedding.model}, expected static", suggestion="only static ones are tuned"
        )
    if find_spec("scipy") is None:
        raise missing_extra(what, "train", missing="scipy")


@dataclass(frozen=True, slots=True)
class History:
    """A repository of the work folder, and what its last commits changed of the files in it."""

    name: str
    folder: Path
    """Where its git repository is."""
    languages: dict[str, str]
    """Of its indexed files, by path."""
    commits: tuple[Commit, ...]
    """None without git, and none of a clone that is one commit deep."""


def histories(settings: Settings) -> list[History]:
    """Of every repository of the settings, by name. Raises SourceError: the snapshot stage has not run."""
    return [_history(one, settings) for _, one in sorted(named(settings.sources.repositories).items())]


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
    """Adapt the encoder of the settings to the snapshots in the work folder, see `adapt`, which it raises as."""
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
