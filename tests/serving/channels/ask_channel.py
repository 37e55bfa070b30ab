"""How tests ask a channel."""

from __future__ import annotations

from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery
from codequarry.serving.text.query_classes import analyze_query


def ask_channel(channel: Channel, text: str, limit: int = 10, **options) -> Candidates:
    """Ask with a text as a request brings it; the options are those of `ChannelQuery`."""
    return channel.search(ChannelQuery(analyze_query(text), limit, **options))
