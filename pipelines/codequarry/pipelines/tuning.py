"""Fitting the encoder to the repositories of the settings, from their snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from codequarry.pipelines.chunk_workers import SourceFile
from codequarry.pipelines.encoders import encoder_directories
from codequarry.pipelines.snapshot import read_contents, snapshot_repository
from codequarry.pipelines.sources import named
from codequarry.pipelines.training.adapt import adapt
from codequarry.pipelines.workspace import Progress, repository_work, silent, working
from codequarry.schemas.encoder import Adaptation
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.layout import DENSE_LEGS
from codequarry.schemas.settings import Settings


def tune_encoder(
    settings: Settings, target: Path, *, budget_s: float = 60.0, progress: Progress = silent
) -> Adaptation:
    """Adapt the static encoder of the settings to their repositories; see `adapt`.

    Raises InvalidArgumentError: the settings name another kind of encoder, or there is too little to learn from.
    MissingExtraError: the extra ``train`` is needed. SourceError: a repository cannot be read.
    """
    if settings.embedding.model != "static":
        raise InvalidArgumentError(
            f"[embedding] model is {settings.embedding.model}, expected static", suggestion="only static ones are tuned"
        )
    if find_spec("scipy") is None:
        raise missing_extra("codequarry tune encoder", "train", missing="scipy")
    repositories = named(settings.sources.repositories)
    with working(settings):
        for repository in repositories.values():
            snapshot_repository(repository, settings, progress)
        base = encoder_directories(settings)[DENSE_LEGS[0]]
        return adapt(_files(list(repositories), settings), base, target, budget_s=budget_s, progress=progress)


def _files(names: list[str], settings: Settings) -> Iterator[SourceFile]:
    for name in names:
        for path, lang, data in read_contents(repository_work(settings.paths.work, name)):
            yield f"{name}/{path}", lang, data
