"""Reading over a fleet: each reference is read from the one bundle that has it."""

from __future__ import annotations

from collections.abc import Mapping

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError
from codequarry.schemas.wire.chatgpt import ConnectorFetchAnswer, ConnectorFetchRequest
from codequarry.schemas.wire.resource import ResourceAnswer, ResourceRequest
from codequarry.schemas.wire.search import (
    MAX_TOKENS_MAX,
    MAX_TOKENS_MIN,
    FetchAnswer,
    FetchObject,
    FetchRequest,
)
from codequarry.serving.catalog import present
from codequarry.serving.fleet.fleet_call import AskedBundle, FleetCall, nothing_served
from codequarry.serving.server.chatgpt import connector_fetch
from codequarry.serving.tools.browse.resource import read_resource
from codequarry.serving.tools.fetch import error_body, fetch


def merge_fetch(call: FleetCall, request: FetchRequest) -> FetchAnswer:
    """Answer the tool ``fetch``.

    The budget is divided between bundles by the number of references that each of them reads.

    Args:
        call: The bundles.
        request: References and options.

    Returns:
        The code, in the order asked.

    Raises:
        InvalidArgumentError: The arguments do not fit, or ``id`` is in several bundles.
        NotFoundError: ``id`` is in none.
        DeadlineError: No time is left to read.
        UnavailableError: No bundle can answer.
    """
    if not call.members:
        raise nothing_served(call.missing)
    if bool(request.id) == bool(request.objectIds):
        return fetch(call.members[0].context, request)  # which says what is wrong
    asked = list(dict.fromkeys(request.objectIds or [request.id]))
    held = {raw: _holder(call, raw, request.ref) for raw in asked}
    if request.id:
        place = held[request.id]
        if isinstance(place, CodequarryError):
            raise place
        answer = fetch(place.context, request)
        return answer.model_copy(update={"bundle": call.info([answer.metadata.get("uri", "")])})
    objects: dict[str, FetchObject] = {
        raw: FetchObject(id=present.safe_echo(raw), content="", error=error_body(place))
        for raw, place in held.items()
        if isinstance(place, CodequarryError)
    }
    limits = call.notes()
    for member in call.members:
        own = [raw for raw in asked if held[raw] == member]
        if own:
            share = max(MAX_TOKENS_MIN, _clamped(request.max_tokens) * len(own) // len(asked))
            part = fetch(member.context, request.model_copy(update={"objectIds": own, "max_tokens": share}))
            objects |= dict(zip(own, part.objects, strict=True))
            limits += part.limits
    shown = [objects[raw] for raw in asked]
    uris = [one.metadata.uri for one in shown if one.metadata is not None]
    return FetchAnswer(objects=shown, limits=list(dict.fromkeys(limits)), bundle=call.info(uris))


def merge_resource(call: FleetCall, request: ResourceRequest) -> ResourceAnswer:
    """Read a resource from the bundle of its repository; raises as `read_resource`."""
    return call.each(read_resource, request).answers[0][1]


def merge_connector_fetch(call: FleetCall, request: ConnectorFetchRequest) -> ConnectorFetchAnswer:
    """Answer ``fetch`` in OpenAI's shape; raises as `connector_fetch`."""
    return call.each(connector_fetch, request).answers[0][1]


def _holder(call: FleetCall, raw: str, ref: str) -> AskedBundle | CodequarryError:
    """Return the bundle that has what a reference names, or the error that says why none is read."""
    found: dict[str, AskedBundle] = {}
    errors: list[CodequarryError] = []
    for member in call.members:
        try:
            answer = fetch(member.context, FetchRequest(id=raw, resolve="metadata_only", ref=ref))
        except (InvalidArgumentError, NotFoundError) as error:
            errors.append(error)
        else:
            found[answer.metadata.get("uri", "")] = member
    if len(found) > 1:
        return _several(found)
    return next(iter(found.values()), None) or _clearest(errors)


def _several(found: Mapping[str, AskedBundle]) -> InvalidArgumentError:
    shown = ", ".join(sorted(map(present.printable, found))[:5])
    return InvalidArgumentError(
        f"this names files of {len(found)} bundles: {shown}", suggestion="put the repository in front: repository/path"
    )


def _clearest(errors: list[CodequarryError]) -> CodequarryError:
    """Return the error of a bundle that knows the reference's file or finds several, before those that know nothing."""
    return next((one for one in errors if isinstance(one, InvalidArgumentError)), errors[0])


def _clamped(tokens: int) -> int:
    return min(max(tokens, MAX_TOKENS_MIN), MAX_TOKENS_MAX)
