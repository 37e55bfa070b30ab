"""Searches over a fleet: candidates of all bundles are ranked on one scale."""

from __future__ import annotations

from typing import TypeVar

from codequarry.schemas.wire.chatgpt import ConnectorSearchAnswer, ConnectorSearchRequest
from codequarry.schemas.wire.explore import ExploreAnswer, ExploreRequest
from codequarry.schemas.wire.pro import ProAnswer, ProRequest
from codequarry.schemas.wire.search import SearchAnswer, SearchFilters, SearchRequest
from codequarry.serving.fleet.fleet_call import AskedBundle, FleetCall, nothing_served
from codequarry.serving.fleet.promising import most_promising
from codequarry.serving.server.chatgpt import connector_query, connector_results
from codequarry.serving.tools.browse.explore import explore
from codequarry.serving.tools.pro import search_with_stages
from codequarry.serving.tools.search import search_versions

RankedT = TypeVar("RankedT", SearchRequest, ProRequest)


def merge_search(call: FleetCall, request: SearchRequest) -> SearchAnswer:
    """Answer the tool ``search``; raises as `search_versions`."""
    chosen, notes = _promising(call, request)
    answer = search_versions([(member.context, own) for member, own in chosen])
    info = call.info(one.metadata.uri for one in answer.results)
    return answer.model_copy(update={"bundle": info, "limits": [*call.notes(), *answer.limits, *notes]})


def merge_pro(call: FleetCall, request: ProRequest) -> ProAnswer:
    """Answer the tool ``semantic_search_pro``; raises as `search_with_stages`."""
    chosen, notes = _promising(call, request)
    answer = search_with_stages([(member.context, own) for member, own in chosen])
    info = call.info(one.uri for one in answer.findings)
    said = {"version": info.version, "commits": info.commits, "scope_id": request.scope_id}
    said["repos"] = request.filters.repos
    scope = answer.scope.model_copy(update=said)
    return answer.model_copy(update={"scope": scope, "limits": [*call.notes(), *answer.limits, *notes]})


def merge_explore(call: FleetCall, request: ExploreRequest) -> ExploreAnswer:
    """Answer the tool ``explore`` from the bundle that holds the best place.

    Callers, callees and tests are looked up in that bundle alone. Raises as `explore`.
    """
    filters = SearchFilters(**request.filters.model_dump())
    asked = SearchRequest(query=request.query, top_k=1, scope_id=request.scope_id, filters=filters)
    best = merge_search(call, asked).results
    chosen = call.choose(request)
    repository = best[0].metadata.uri.partition("/")[0] if best else ""
    member, own = next((each for each in chosen if repository in each[0].repositories), chosen[0])
    answer = explore(member.context, own)
    others = len(chosen) - 1
    note = f"explored in bundle {member.name}, which has the best place; {others} more were searched for that alone"
    limits = [*call.notes(), *([note] if others else []), *answer.limits]
    return answer.model_copy(update={"bundle": call.info(one.uri for one in answer.places), "limits": limits})


def merge_connector_search(call: FleetCall, request: ConnectorSearchRequest) -> ConnectorSearchAnswer:
    """Answer ``search`` in OpenAI's shape; raises as `search_versions`."""
    answer = merge_search(call, connector_query(request))
    bundle_of = {name: member.context.bundle for member in call.members for name in member.repositories}
    return connector_results(answer, lambda one: bundle_of[one.metadata.uri.partition("/")[0]])


def _promising(call: FleetCall, request: RankedT) -> tuple[list[tuple[AskedBundle, RankedT]], list[str]]:
    """Choose the bundles that a search is asked of, and say how many are not."""
    fitting = call.choose(request)
    if not fitting:
        raise nothing_served(call.missing)
    limit = fitting[0][0].context.settings.fleet_bundles
    chosen = most_promising([member.context.bundle for member, _ in fitting], request.query, limit)
    if len(chosen) == len(fitting):
        return fitting, []
    note = (
        f"{len(chosen)} of {len(fitting)} bundles were asked, those whose words and files fit best; name repositories "
        "in filters.repos to ask others"
    )
    return [fitting[place] for place in chosen], [note]
