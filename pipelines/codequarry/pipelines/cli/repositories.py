"""Repositories on the command line: ``[NAME=]PATH`` or ``[NAME=]URL``, each with ``#REF`` behind it where wanted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.git_urls import check_ref, looks_like_git_url, parse_git_url
from codequarry.schemas.settings.load import RepositorySettings, Settings

RepositoriesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=]PATH|URL[#REF]...",
        help="Repositories or directories. Without any: those of the settings file, else the current folder.",
    ),
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="Settings file.", show_default="./dagster_project.toml if there")
]


def source_state(commit: str, *, dirty: bool, unborn: bool) -> str:
    """Return what was read of a repository, for people."""
    if commit:
        return f"commit {commit[:12]}" + (", with uncommitted changes" if dirty else "")
    return "the work tree of a repository without commits yet" if unborn else "a directory without git"


def over(settings: Settings, given: list[str]) -> Settings:
    """Return the settings with the repositories of the command line, which win over those of the file.

    Args:
        settings: The settings.
        given: Repositories of the command line; without any, those of the settings, or else the current folder.

    Returns:
        The settings of the run.

    Raises:
        InvalidArgumentError: An argument is not a repository.
    """
    if not given and settings.sources.repositories:
        return settings
    repositories = tuple(parse_repository(text) for text in given or ["."])
    return settings.model_copy(update={"sources": settings.sources.model_copy(update={"repositories": repositories})})


def parse_repository(text: str) -> RepositorySettings:
    """Parse one argument.

    Args:
        text: ``[NAME=]PATH`` or ``[NAME=]URL``, with an optional ``#REF``.

    Returns:
        The repository.

    Raises:
        InvalidArgumentError: Name, URL or ref cannot be used; credentials are not repeated.
    """
    name, separator, place = text.partition("=")
    if not separator or os.path.exists(text) or looks_like_git_url(text):
        name, place = "", text
    if not place:
        raise InvalidArgumentError(f"found {text!r}, expected [NAME=]PATH or URL", suggestion="give a path, e.g. '.'")
    ref = ""
    if "#" in place and not os.path.exists(place):
        place, _, ref = place.partition("#")
        _check_ref(place, ref)
    if looks_like_git_url(place) and not os.path.exists(place):
        return _name_repository(name, "URL", url=_check_url(place), ref=ref)
    try:
        path = Path(place).expanduser()
    except RuntimeError:
        raise InvalidArgumentError(f"{place}: no such home folder", suggestion="give the path in full") from None
    return _name_repository(name, str(path), path=path, ref=ref)


def with_indexes(settings: Settings, given: list[str]) -> Settings:
    """Return the settings with the SCIP indexes of the command line instead of the file's.

    Args:
        settings: The settings.
        given: ``[NAME=]FILE`` of each index.

    Returns:
        The settings of the run.

    Raises:
        InvalidArgumentError: An index belongs to no repository, or does not name one of several.
    """
    if not given:
        return settings
    repositories = repositories_by_name(settings.sources.repositories)
    files: dict[str, tuple[Path, ...]] = {}
    for text in given:
        name, separator, file = text.partition("=")
        if not separator or os.path.exists(text):
            name, file = next(iter(repositories)) if len(repositories) == 1 else "", text
        if name not in repositories:
            raise InvalidArgumentError(
                f"--scip {text!r} is of no repository that is indexed",
                suggestion=f"write it like --scip NAME=FILE; the repositories are {', '.join(repositories)}",
            )
        files[name] = (*files.get(name, ()), Path(os.path.abspath(file)))
    listed = tuple(
        repository.model_copy(update={"scip": files.get(name, repository.scip)})
        for name, repository in repositories.items()
    )
    return settings.model_copy(update={"sources": settings.sources.model_copy(update={"repositories": listed})})


def _check_url(url: str) -> str:
    try:
        parse_git_url(url)
    except ValueError as error:
        # The text itself is not repeated: a password may be anywhere in it.
        raise InvalidArgumentError(
            f"a repository URL cannot be used: {error}", suggestion="write it like https://example.org/team/app"
        ) from None
    return url


def _check_ref(place: str, ref: str) -> None:
    try:
        check_ref(ref)
    except ValueError as error:
        raise InvalidArgumentError(
            f"found {ref!r} behind '#', {error}",
            suggestion="write it like PATH#main or URL#v1.0",
        ) from None


def _name_repository(
    name: str, shown: str, *, path: Path | None = None, url: str = "", ref: str = ""
) -> RepositorySettings:
    try:
        return RepositorySettings(name=name, path=path, url=url, ref=ref)
    except ValidationError:
        raise InvalidArgumentError(
            f"{name!r} cannot name a repository; expected letters, digits, '.', '_' and '-', a letter or digit first",
            suggestion=f"write it like my-name={shown}",
        ) from None
