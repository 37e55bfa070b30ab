"""Tool ``outline``: the definitions of a file, or of the files of a folder."""

from __future__ import annotations

from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.wire.outline import (
    DEPTH_MAX,
    OUTLINE_MAX,
    FileOutline,
    OutlineAnswer,
    OutlineDefinition,
    OutlineRequest,
)
from codequarry.schemas.wording import counted
from codequarry.serving.catalog import present
from codequarry.serving.catalog.filters import allowed_files
from codequarry.serving.text.arguments import checked_text, clamp_argument
from codequarry.serving.tools.browse.file_references import files_below, find_place
from codequarry.serving.tools.browse.file_text import NestedDefinition, definitions_in, require_indexed
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.version.open import Bundle

_MAX_PATH_CHARS = 4096
_MAX_FILES = 400
"""Files of a folder whose definitions are read."""


def outline(context: ToolContext, request: OutlineRequest) -> OutlineAnswer:
    """Answer an outline.

    Args:
        context: Version and deadline.
        request: File or folder.

    Returns:
        Its definitions.

    Raises:
        InvalidArgumentError: The path means several files, or a filter is not allowed.
        NotFoundError: There is no such file or folder.
        DeadlineError: No time is left.
    """
    bundle, deadline, request = context.bundle, context.deadline, scoped(request)
    text = checked_text("path", request.path, longest=_MAX_PATH_CHARS, suggestion="give one file or folder")
    limit, limits = clamp_argument("limit", request.limit, 1, OUTLINE_MAX)
    allowed = allowed_files(request.filters, bundle.directory)
    files, is_folder = _files(bundle, text)
    depth, notes = clamp_argument("depth", request.depth, 0, DEPTH_MAX)
    depth = depth or (1 if is_folder else 2)
    limits += notes
    files = [file for file in files if allowed is None or allowed[file]]
    deadline.check()
    read = files[:_MAX_FILES]
    nested = definitions_in(bundle, read)
    deadline.check()
    shown: list[FileOutline] = []
    total = left_out = 0
    for file in read:
        own = nested.get(file, [])
        within = [one for one in own if one.depth <= depth]
        kept = within[: max(0, limit - total)]
        total += len(within)
        left_out += bool(within and not kept)
        if kept or not within:
            shown.append(_file(bundle, file, kept, len(own)))
    if total > limit:
        limits.append(
            f"{limit} of {counted(total, 'definition')} are shown"
            + (f", none of {counted(left_out, 'file')}" if left_out else "")
            + "; raise limit, or give a path further down"
        )
    if len(files) > len(read):
        limits.append(f"the first {len(read)} of {counted(len(files), 'file')} are read; give a path further down")
    if allowed is not None and not files:
        limits.append("the filters leave no file of this path")
    return OutlineAnswer(files=shown, files_total=len(files), total=total, limits=limits, bundle=bundle.info)


def _files(bundle: Bundle, path: str) -> tuple[list[int], bool]:
    """Return the files of a path, sources first, and whether it is a folder."""
    directory = bundle.directory
    below = files_below(directory, path)
    if below is None:
        file = find_place(directory, path).file
        require_indexed(bundle, file)
        return [file], False
    indexed = below & directory.indexed
    files = directory.reading_order[indexed[directory.reading_order]].tolist()
    if not files:
        raise NotFoundError("no file of this folder is indexed", suggestion="use list_files to see what is")
    return files, True


def _file(bundle: Bundle, file: int, kept: list[NestedDefinition], total: int) -> FileOutline:
    directory = bundle.directory
    rows = directory.rows_in(file)
    ends = bundle.catalog.index.chunks[rows.start : rows.stop]["end_line"]
    return FileOutline(
        uri=f"{directory.repos[file]}/{directory.paths[file]}",
        lang=directory.langs[file],
        total_lines=int(ends.max()) + 1 if len(ends) else 0,
        definitions=[
            OutlineDefinition(
                name=one.row.name,
                qualified_name=one.row.qualified_name,
                kind=one.row.kind,
                start_line=one.first,
                end_line=one.last,
                depth=one.depth,
                signature=present.one_line(one.row.signature),
            )
            for one in kept
        ],
        total=total,
    )
