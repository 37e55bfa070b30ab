"""Reading over a fleet: each reference is read from the one bundle that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError, ReplicaError, error_of
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.chatgpt import ConnectorFetchAnswer, ConnectorFetchRequest
from codequarry.schemas.wire.resource import ResourceAnswer, ResourceRequest
from codequarry.schemas.wire.search import (
    MAX_TOKENS_MAX,
    MAX_TOKENS_MIN,
    ErrorBody,
    FetchAnswer,
    FetchObject,
    FetchRequest,
)
from codequarry.serving.catalog import present
from codequarry.serving.fleet.bundle_host import AskedBundle
from codequarry.serving.fleet.fleet_call import FleetCall, nothing_served
from codequarry.serving.server.chatgpt import connector_fetch
from codequarry.serving.tools.browse.resource import read_resource
from codequarry.serving.tools.context import ToolContext
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
        return call.ask_one(fetch, call.members[0], request)  # which says what is wrong
    asked = list(dict.fromkeys(request.objectIds or [request.id]))
    held = _holders(call, asked, request.ref)
    if request.id:
        place = held[request.id]
        if isinstance(place, CodequarryError):
            raise place
        answer = call.ask_one(fetch, place, request)
        return answer.model_copy(update={"bundle": call.info([answer.metadata.get("uri", "")])})
    objects: dict[str, FetchObject] = {
        raw: _failed(raw, place) for raw, place in held.items() if isinstance(place, CodequarryError)
    }
    parts: list[tuple[AskedBundle, list[str]]] = []
    for member in call.members:
        if own := [raw for raw in asked if held[raw] is member]:
            parts.append((member, own))
    shares = [max(MAX_TOKENS_MIN, _clamped(request.max_tokens) * len(own) // len(asked)) for _, own in parts]
    replies = call.ask(
        fetch,
        [
            (member, request.model_copy(update={"objectIds": own, "max_tokens": share}))
            for (member, own), share in zip(parts, shares, strict=True)
        ],
    )
    notes: list[str] = []
    for (_, own), part in zip(parts, replies, strict=True):
        if isinstance(part, ReplicaError):
            objects |= {raw: _failed(raw, part) for raw in own}
        elif isinstance(part, CodequarryError):
            raise part
        else:
            objects |= dict(zip(own, part.objects, strict=True))
            notes += part.limits
    limits = [*call.notes(), *notes]
    shown = [objects[raw] for raw in asked]
    uris = [one.metadata.uri for one in shown if one.metadata is not None]
    return FetchAnswer(objects=shown, limits=list(dict.fromkeys(limits)), bundle=call.info(uris))


def merge_resource(call: FleetCall, request: ResourceRequest) -> ResourceAnswer:
    """Read a resource from the bundle of its repository; raises as `read_resource`."""
    return call.each(read_resource, request).answers[0][1]


def merge_connector_fetch(call: FleetCall, request: ConnectorFetchRequest) -> ConnectorFetchAnswer:
    """Answer ``fetch`` in OpenAI's shape; raises as `connector_fetch`."""
    return call.each(connector_fetch, request).answers[0][1]


class LocateRequest(StrictModel):
    """References that a bundle may have."""

    ids: list[str] = Field(description="References, in any form that fetch takes.")
    ref: str = Field(description="Branch of the request.")


class LocateAnswer(StrictModel):
    """Files that references name in a bundle."""

    uris: list[str | ErrorBody] = Field(description="repository/path of each reference, or why there is none.")


def locate(context: ToolContext, request: LocateRequest) -> LocateAnswer:
    """Tell which files references name; raises as `fetch`, but for references that are not there or ambiguous."""
    uris: list[str | ErrorBody] = []
    for raw in request.ids:
        try:
            answer = fetch(context, FetchRequest(id=raw, resolve="metadata_only", ref=request.ref))
        except (InvalidArgumentError, NotFoundError) as error:
            uris.append(error_body(error))
        else:
            uris.append(answer.metadata.get("uri", ""))
    return LocateAnswer(uris=uris)


def _holders(call: FleetCall, asked: Sequence[str], ref: str) -> dict[str, AskedBundle | CodequarryError]:
    """Return the bundle that has what each reference names, or the error that says why none is read."""
    replies = call.ask(locate, [(member, LocateRequest(ids=list(asked), ref=ref)) for member in call.members])
    answers: list[tuple[AskedBundle, LocateAnswer]] = []
    lost: list[CodequarryError] = []
    for member, reply in zip(call.members, replies, strict=True):
        if isinstance(reply, ReplicaError):
            lost.append(reply)
        elif isinstance(reply, CodequarryError):
            raise reply
        else:
            answers.append((member, reply))
    if not answers:
        raise nothing_served(call.missing)
    holders: dict[str, AskedBundle | CodequarryError] = {}
    for place, raw in enumerate(asked):
        said = [(member, answer.uris[place]) for member, answer in answers]
        found = {uri: member for member, uri in said if isinstance(uri, str)}
        errors = [
            error_of(error.code, error.message, error.suggestion) for _, error in said if not isinstance(error, str)
        ]
        if len(found) > 1:
            holders[raw] = _several(found)
        else:
            holders[raw] = next(iter(found.values()), None) or call.clear_up(_clearest(errors))
    return holders


def _failed(raw: str, error: CodequarryError) -> FetchObject:
    return FetchObject(id=present.safe_echo(raw), content="", error=error_body(error))


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
