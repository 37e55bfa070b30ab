"""Text of an answer of ``explore``: code of the matches, then a line for each related place."""

from __future__ import annotations

from codequarry.schemas.wire.explore import ExploreAnswer, ExplorePlace, ExploreRemainder
from codequarry.schemas.wire.search import BundleInfo
from codequarry.schemas.wording import counted
from codequarry.serving.render.lines import NOTHING_FOUND, footer, numbered, place, shown_path


def explore_text(answer: ExploreAnswer) -> str:
    """Return the text of an exploration.

    Args:
        answer: The answer.

    Returns:
        Its text.
    """
    bundle = answer.bundle
    lines = [line for one in answer.places for line in _place(one, bundle)]
    if not answer.places and not answer.left_out:
        lines.append(NOTHING_FOUND)
    if answer.left_out:
        lines.append("left out: " + " · ".join(_remainder(one, bundle) for one in answer.left_out))
    return "\n".join([*lines, *footer(bundle, [one.uri for one in answer.places], (), answer.limits)])


def _place(one: ExplorePlace, bundle: BundleInfo) -> list[str]:
    where = place(shown_path(one.uri, bundle), one.start_line, one.end_line)
    if one.role == "match":
        return [f"{where}  {one.symbol}".rstrip(), *numbered(one.code.split("\n"), one.start_line)]
    by_name = " (by name)" if one.by_name else ""
    return [f"{where}  {one.role} of {one.symbol}{by_name}: {one.code}"]


def _remainder(one: ExploreRemainder, bundle: BundleInfo) -> str:
    named = f" (fetch {', '.join(shown_path(each, bundle) for each in one.places)})" if one.places else ""
    plural = "matches" if one.role == "match" else ""
    return counted(one.count, one.role, plural) + named
