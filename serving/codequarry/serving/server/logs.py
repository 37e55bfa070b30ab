"""Log on stderr: only messages that need action, each on one line."""

from __future__ import annotations

import logging
import sys


class OneLine(logging.Formatter):
    """Formatter of messages as single lines of printable text: parts of them come from clients and token claims."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows it on lines of its own."""
        return printable(super().formatMessage(record))


def log_to_stderr() -> None:
    """Send warnings and errors of every library to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(levelname)s %(name)s: %(message)s"))
    # Only messages that need action: libraries report every start and every request.
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    # FAISS reports every instruction set its wheel was not built for.
    logging.getLogger("faiss").setLevel(logging.WARNING)


def take_over_fastmcp() -> None:
    """Send FastMCP's messages to the common log; its import gave them a level and handlers that break lines."""
    logger = logging.getLogger("fastmcp")
    logger.setLevel(logging.WARNING)
    logger.handlers.clear()
    logger.propagate = True


def printable(text: str) -> str:
    r"""Return the text with line breaks, control and invisible characters escaped.

    >>> print(printable("bob\nERROR all is lost\x1b[2J"))
    bob\nERROR all is lost\x1b[2J
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
