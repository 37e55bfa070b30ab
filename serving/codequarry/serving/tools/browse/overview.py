"""Tool ``overview``: languages, folders, entry points and documents of repositories, for a first look."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from codequarry.schemas.catalog.symbol_views import PATH_CLASSES
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.wire.overview import (
    MAX_DETAILED,
    FolderUse,
    LanguageShare,
    OverviewAnswer,
    OverviewRequest,
    RepositoryOverview,
)
from codequarry.schemas.wire.search import FileFilters
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.catalog.filters import allowed_files
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.version.open import Bundle

_LANGUAGES = 8
_LISTED = {1: 10, 2: 6, 3: 4}
"""Folders, entry points and documents named of a repository, by how many are described."""
_MAX_OTHERS = 20
"""Further repositories that are listed with their languages."""
_SOURCE = PATH_CLASSES.index("source") + 1
_ENTRY_POINTS = (
    re.compile(r"(.*/)?(__main__\.py|main\.(py|go|rs|c|cc|cpp|cxx|m|swift|kt|dart|zig|ts|js|mjs)|Main\.(java|kt|hs))"),
    re.compile(r"(.*/)?cmd/[^/]+\.go|(.*/)?(s?bin|exe)/[^/]+"),
    re.compile(r"(.*/)?(Program\.cs|manage\.py|wsgi\.py|asgi\.py|(app|cli|server)\.(py|ts|js|mjs|go|rb)|config\.ru)"),
)
"""Paths of files where programs start, the surest first."""
_README = re.compile(r"readme(\.\w+)*", re.IGNORECASE)
_DOCUMENT = re.compile(r"[^/]*\.(md|mdx|rst|adoc|txt)|readme|changelog|contributing", re.IGNORECASE)
_NO_DOCUMENT = re.compile(r"(requirements|constraints|licen[cs]e|notice|robots|cmakelists).*", re.IGNORECASE)
_DEEPEST_DOCUMENT = 2


def overview(context: ToolContext, request: OverviewRequest) -> OverviewAnswer:
    """Answer an overview.

    Args:
        context: The version.
        request: Repositories; the first ones when none is named.

    Returns:
        What they are made of.

    Raises:
        InvalidArgumentError: A repository does not exist.
        DeadlineError: No time is left.
    """
    bundle, limits = context.bundle, list[str]()
    allowed_files(FileFilters(repos=request.repos), bundle.directory)
    wanted = set(request.repos)
    names = [name for name in bundle.directory.repo_names if not wanted or name in wanted]
    try:
        fan_in = bundle.files.importing_files()
    except UnavailableError:
        fan_in = np.zeros(len(bundle.directory.paths), np.int64)
        limits.append("the index of files is off: folders are ordered by their size")
    sizes = _text_bytes(bundle)
    detailed = names[:MAX_DETAILED]
    listed = _LISTED[max(1, len(detailed))]
    found: list[RepositoryOverview] = []
    for name in names[: MAX_DETAILED + _MAX_OTHERS]:
        context.deadline.check()
        found.append(_repository(bundle, name, sizes, fan_in, listed if name in detailed else 0))
    if len(names) > len(detailed):
        limits.append(f"{len(detailed)} of {len(names)} repositories are described in full; name others in repos")
    return OverviewAnswer(
        repositories=found, repositories_total=len(bundle.directory.repo_names), limits=limits, bundle=bundle.info
    )


def _text_bytes(bundle: Bundle) -> np.ndarray:
    """Return the bytes of text of each file: (files,) int64."""
    total = np.concatenate([[0], np.cumsum(bundle.catalog.index.chunks["text_bytes"], dtype=np.int64)])
    starts = bundle.directory.first_rows
    return total[starts + bundle.directory.chunk_counts] - total[starts]


def _repository(bundle: Bundle, name: str, sizes: np.ndarray, fan_in: np.ndarray, listed: int) -> RepositoryOverview:
    """Describe a repository.

    Args:
        bundle: The version.
        name: Name of the repository.
        sizes: (files,) int64, bytes of text.
        fan_in: (files,) int64, importing files.
        listed: How many folders, entry points and documents are named; 0 for none.

    Returns:
        The description.
    """
    directory = bundle.directory
    files = np.flatnonzero(directory.files_in([name]) & directory.indexed).tolist()
    folders = _folders(directory, files, fan_in) if listed else []
    starts = _entry_points(directory, files) if listed else []
    documents = _documents(directory, files) if listed else []
    return RepositoryOverview(
        name=name,
        commit=bundle.info.commits.get(name, ""),
        files=len(files),
        languages=_languages(directory, files, sizes),
        folders=folders[:listed],
        folders_total=len(folders),
        entry_points=starts[:listed],
        entry_points_total=len(starts),
        documents=documents[:listed],
        documents_total=len(documents),
    )


def _languages(directory: ChunkDirectory, files: Sequence[int], sizes: np.ndarray) -> list[LanguageShare]:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in files:
        count = counts[directory.langs[file] or "text"]
        count[0] += int(sizes[file])
        count[1] += 1
    whole = max(1, sum(size for size, _ in counts.values()))
    ordered = sorted(counts.items(), key=lambda one: (-one[1][0], one[0]))[:_LANGUAGES]
    return [LanguageShare(lang=lang, files=count, share=round(size / whole, 3)) for lang, (size, count) in ordered]


def _folders(directory: ChunkDirectory, files: Sequence[int], fan_in: np.ndarray) -> list[FolderUse]:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in files:
        if directory.class_rank[file] == _SOURCE:
            folder = directory.paths[file].rpartition("/")[0]
            count = counts[f"{directory.repos[file]}/{folder}".rstrip("/")]
            count[0] += int(fan_in[file])
            count[1] += 1
    ordered = sorted(counts.items(), key=lambda one: (-one[1][0], -one[1][1], one[0]))
    return [FolderUse(uri=uri, files=count, fan_in=uses) for uri, (uses, count) in ordered]


def _entry_points(directory: ChunkDirectory, files: Sequence[int]) -> list[str]:
    found: list[tuple[int, int, str]] = []
    for file in files:
        path = directory.paths[file]
        sure = next((rank for rank, pattern in enumerate(_ENTRY_POINTS) if pattern.fullmatch(path)), None)
        if sure is not None and directory.class_rank[file] == _SOURCE:
            found.append((sure, path.count("/"), f"{directory.repos[file]}/{path}"))
    return [uri for *_, uri in sorted(found)]


def _documents(directory: ChunkDirectory, files: Sequence[int]) -> list[str]:
    found: list[tuple[int, bool, str]] = []
    for file in files:
        path = directory.paths[file]
        folder, _, name = path.rpartition("/")
        depth = path.count("/")
        readme = bool(_README.fullmatch(name))
        named = _DOCUMENT.fullmatch(name) and not _NO_DOCUMENT.fullmatch(name)
        if readme or (named and depth <= _DEEPEST_DOCUMENT and not folder.startswith("tests")):
            found.append((depth, not readme, f"{directory.repos[file]}/{path}"))
    return [uri for *_, uri in sorted(found)]
