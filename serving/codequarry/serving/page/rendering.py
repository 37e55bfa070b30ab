"""Templates of the page, filled in a thread."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from codequarry.schemas.times import age_s, in_words
from codequarry.serving.page.highlighting import highlighted
from codequarry.serving.page.score_parts import score_parts

_FOLDER = Path(__file__).parent


def link(page: str, /, **query: object) -> str:
    """Return the address of a page.

    Args:
        page: Its path.
        **query: Parameters.

    Returns:
        The address.
    """
    return f"{page}?{urlencode(query)}"


def file_link(uri: str, line: int) -> str:
    """Return the address of a line of a file.

    Args:
        uri: The file.
        line: Its line, 1-based.

    Returns:
        The address.
    """
    return f"{link('/file', path=uri, line=line)}#L{line}"


async def render(template: str, **context: object) -> str:
    """Fill a template, in a thread: colours take long, and the calls of agents wait for the event loop.

    Args:
        template: Its file name.
        **context: Its variables.

    Returns:
        The page.
    """
    return await anyio.to_thread.run_sync(_templates().get_template(template).render, context)


def static_file(name: str) -> str:
    """Return a file of the page that is no template.

    Args:
        name: Its file name.

    Returns:
        Its text.
    """
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.globals.update(
        link=link, file_link=file_link, highlighted=highlighted, score_parts=score_parts, age_s=age_s
    )
    templates.filters["in_words"] = in_words
    return templates
