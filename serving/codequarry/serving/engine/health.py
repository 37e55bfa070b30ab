"""State of the server, from memory alone: a probe must not wait for a disk."""

from __future__ import annotations

from datetime import datetime

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.wire.health import ChannelHealth, HealthAnswer, RefusedVersion
from codequarry.serving.engine.follow import Follower, Refusal
from codequarry.serving.version.open import Bundle
from codequarry.serving.version.served import Served


def health(served: Served, follower: Follower | None, *, uptime_s: float) -> HealthAnswer:
    """Report the served version, since when it is served, and what is wrong.

    Args:
        served: The served version.
        follower: None when CURRENT is not followed.
        uptime_s: Seconds since the server started.

    Returns:
        The state of the server.
    """
    try:
        bundle = served.bundle
    except UnavailableError:
        bundle = None
    channels = _channels(bundle) if bundle else {}
    chunks = len(bundle.directory.chunk_ids) if bundle else 0
    catalog = bundle is not None and bundle.catalog.answers()
    follows = follower is None or follower.following
    damaged = sorted(follower.damage) if follower else []
    fitting = all(count == chunks for channel in channels.values() for count in channel.counts.values())
    sound = follows and catalog and fitting and not damaged and all(channel.open for channel in channels.values())
    answer = HealthAnswer(
        status="unavailable" if bundle is None else "ok" if sound else "degraded",
        verified=follower is not None and follower.verified,
        damaged=damaged,
        catalog=catalog,
        chunks=chunks,
        channels=channels,
        encoders={leg.channel: leg.encoder.name for leg in bundle.manifest.legs} if bundle else {},
        follows_current=follows,
        uptime_s=int(uptime_s),
        in_flight=served.requests,
        draining=served.leaving,
    )
    given: dict[str, object] = {}
    if bundle is not None:
        given |= {"bundle": bundle.info, "since": _utc(served.since)}
    if follower is not None and follower.refusal is not None:
        given["refused"] = _describe_refusal(follower.refusal)
    return answer.model_copy(update=given)


def _channels(bundle: Bundle) -> dict[str, ChannelHealth]:
    problems = bundle.problems()
    names = sorted({*bundle.channels, *problems})
    opened = {name: channel.counts() for name, channel in bundle.channels.items()}
    return {
        name: ChannelHealth(open=name not in problems, reason=problems.get(name, ""), counts=opened.get(name, {}))
        for name in names
    }


def _describe_refusal(refusal: Refusal) -> RefusedVersion:
    return RefusedVersion(
        version=refusal.current.version if refusal.current else "",
        reason=refusal.reason,
        at=_utc(refusal.at),
        attempts=refusal.attempts,
    )


def _utc(moment: datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else ""
