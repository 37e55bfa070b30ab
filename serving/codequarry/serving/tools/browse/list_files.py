"""Tool ``list_files``: a tree of folders to a depth, or the files that a glob matches."""

from __future__ import annotations

import re
from itertools import takewhile

import numpy as np

from codequarry.schemas.catalog.symbol_views import PATH_CLASSES
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.wire.list_files import (
    FILES_MAX,
    TREE_DEPTH_MAX,
    FileItem,
    FoldedFolder,
    ListFilesAnswer,
    ListFilesRequest,
)
from codequarry.schemas.wire.scope import parse_scope_id
from codequarry.schemas.wire.search import FileFilters
from codequarry.schemas.wording import counted
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.catalog.filters import allowed_files, scope_files
from codequarry.serving.text.arguments import checked_text, clamp_argument
from codequarry.serving.tools.browse.file_references import files_below
from codequarry.serving.tools.context import ToolContext

_MAX_PATTERN_CHARS = 256
_WILDCARD = re.compile(r"[*?\[]")


def list_files(context: ToolContext, request: ListFilesRequest) -> ListFilesAnswer:
    """Answer a list of files.

    Args:
        context: Version and deadline.
        request: Folder or glob, and filters.

    Returns:
        Files and folders.

    Raises:
        InvalidArgumentError: The glob or a language is not allowed.
        NotFoundError: There is no such folder.
        DeadlineError: No time is left.
    """
    directory = context.bundle.directory
    limit, limits = clamp_argument("limit", request.limit, 1, FILES_MAX)
    depth, notes = clamp_argument("depth", request.depth, 1, TREE_DEPTH_MAX)
    limits += notes
    pattern = checked_text(
        "pattern", request.pattern, longest=_MAX_PATTERN_CHARS, suggestion="give one folder or one glob"
    ).strip()
    allowed = _allowed(directory, request)
    is_glob = bool(_WILDCARD.search(pattern)) and files_below(directory, pattern) is None
    matching = directory.files_matching(pattern) if is_glob else _folder(directory, pattern)
    context.deadline.check()
    files = directory.in_order(allowed & matching)
    base = "" if is_glob else _base(directory, files)
    levels = depth if base else depth + 1  # the folder of a repository is none of its own
    folded: dict[str, int] = {}
    listed: list[int] = []
    for file in files:
        uri = f"{directory.repos[file]}/{directory.paths[file]}"
        folders = [] if is_glob else uri[len(base) :].split("/")[:-1]
        if len(folders) > levels:
            folder = base + "/".join(folders[: levels + 1])
            folded[folder] = folded.get(folder, 0) + 1
        else:
            listed.append(file)
    kept = list(folded.items())[:limit]
    shown = listed[: max(0, limit - len(kept))]
    if len(kept) + len(shown) < len(folded) + len(listed):
        hidden = len(listed) - len(shown), len(folded) - len(kept)
        parts = [counted(count, noun) for count, noun in zip(hidden, ("file", "folder"), strict=True) if count]
        limits.append(f"{' and '.join(parts)} left out; raise limit, or give a folder further down or a narrower glob")
    if not files:
        limits.append("no indexed file matches; describe_index tells what is indexed")
    return ListFilesAnswer(
        files=[
            FileItem(
                uri=f"{directory.repos[file]}/{directory.paths[file]}",
                lang=directory.langs[file],
                path_class=PATH_CLASSES[int(directory.class_rank[file]) - 1],
            )
            for file in shown
        ],
        folders=[FoldedFolder(uri=uri, files=count) for uri, count in kept],
        total=len(files),
        limits=limits,
        bundle=context.bundle.info,
    )


def _allowed(directory: ChunkDirectory, request: ListFilesRequest) -> np.ndarray:
    """Select the indexed files within the filters: (files,) bool."""
    allowed = directory.indexed
    for other in (
        allowed_files(FileFilters(lang=request.lang), directory),
        scope_files(parse_scope_id(request.scope_id).filters(), directory) if request.scope_id else None,
    ):
        allowed = allowed if other is None else allowed & other
    if request.path_class != "any":
        allowed = allowed & (directory.class_rank == PATH_CLASSES.index(request.path_class) + 1)
    return allowed


def _folder(directory: ChunkDirectory, pattern: str) -> np.ndarray:
    """Select the files of a folder: (files,) bool."""
    below = files_below(directory, pattern)
    if below is not None:
        return below
    if directory.files_matching(pattern).any():
        return directory.files_matching(pattern)
    raise NotFoundError(
        "no such folder in this version of the index", suggestion="leave pattern out for the tree, or give a glob"
    )


def _base(directory: ChunkDirectory, files: list[int]) -> str:
    """Return the folder that holds all files, which the tree begins at; "" for several repositories."""
    folders = [f"{directory.repos[file]}/{directory.paths[file]}".split("/")[:-1] for file in files]
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))
    return "".join(f"{level[0]}/" for level in levels)
