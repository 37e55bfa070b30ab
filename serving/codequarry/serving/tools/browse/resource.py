"""Reading of ``repo://`` URLs: whole files, or the lines that the URL names."""

from __future__ import annotations

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.resource import ResourceAnswer, ResourceRequest
from codequarry.schemas.wire.symbols import MAX_URI_CHARS
from codequarry.serving.tools.browse.file_references import SCHEME, find_place
from codequarry.serving.tools.browse.file_text import read_lines
from codequarry.serving.tools.context import ToolContext


def read_resource(context: ToolContext, request: ResourceRequest) -> ResourceAnswer:
    """Read a resource.

    Args:
        context: Version and deadline.
        request: Its URL.

    Returns:
        Its text.

    Raises:
        InvalidArgumentError: The URL is not one of ``repo://``, or its lines cannot exist.
        NotFoundError: The version has no such file or lines.
        DeadlineError: No time is left.
    """
    context.deadline.restart(context.settings.fetch_timeout_s).check()
    if not request.uri.startswith(SCHEME) or len(request.uri) > MAX_URI_CHARS:
        raise InvalidArgumentError(
            "uri: expected repo://repository/path", suggestion="take urls from the results of tools"
        )
    place = find_place(context.bundle.directory, request.uri)
    _, first, last, *_ = place.reference
    lines = read_lines(context.bundle, place.file, max(first - 1, 0), last - 1 if last else None)
    return ResourceAnswer(text=lines.text)
