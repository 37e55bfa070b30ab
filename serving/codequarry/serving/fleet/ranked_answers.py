"""Ranked answers of a fleet: results of the bundles that are asked, on one scale."""

from __future__ import annotations

from codequarry.schemas.wire.chatgpt import ConnectorSearchAnswer, ConnectorSearchRequest
from codequarry.schemas.wire.explore import ExploreAnswer, ExploreRequest
from codequarry.schemas.wire.pro import ProAnswer, ProRequest
from codequarry.schemas.wire.search import SearchAnswer, SearchFilters, SearchRequest
from codequarry.serving.fleet.fleet_call import FleetCall
from codequarry.serving.server.chatgpt import connector_query, connector_results
from codequarry.serving.tools.browse.explore import explore
from codequarry.serving.tools.pro import search_with_stages, semantic_search_pro
from codequarry.serving.tools.search import search, search_places


def merge_search(call: FleetCall, request: SearchRequest) -> SearchAnswer:
    """Answer the tool ``search``; raises as `search_places`."""
    chosen = call.choose(request)
    if len(chosen) == 1:
        answer = call.ask_one(search, *chosen[0])  # one request to a replica in place of four
    else:
        answer = search_places(call.open_searches(chosen), request, call.terms)
    info = call.info(one.metadata.uri for one in answer.results)
    return answer.model_copy(update={"bundle": info, "limits": [*call.notes(), *answer.limits]})


def merge_pro(call: FleetCall, request: ProRequest) -> ProAnswer:
    """Answer the tool ``semantic_search_pro``; raises as `search_with_stages`."""
    chosen = call.choose(request)
    if len(chosen) == 1:
        answer = call.ask_one(semantic_search_pro, *chosen[0])
    else:
        answer = search_with_stages(call.open_searches(chosen), request, call.terms)
    info = call.info(one.uri for one in answer.findings)
    scope = answer.scope.model_copy(
        update={
            "version": info.version,
            "commits": info.commits,
            "scope_id": request.scope_id,
            "repos": request.filters.repos,
        }
    )
    return answer.model_copy(update={"scope": scope, "limits": [*call.notes(), *answer.limits]})


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
    answer = call.ask_one(explore, member, own)
    others = len(chosen) - 1
    note = f"explored in bundle {member.name}, which has the best place; {others} more were searched for that alone"
    limits = [*call.notes(), *([note] if others else []), *answer.limits]
    return answer.model_copy(update={"bundle": call.info(one.uri for one in answer.places), "limits": limits})


def merge_connector_search(call: FleetCall, request: ConnectorSearchRequest) -> ConnectorSearchAnswer:
    """Answer ``search`` in OpenAI's shape; raises as `search_places`."""
    sources = {one.name: one for member in call.members for one in member.sources}
    return connector_results(merge_search(call, connector_query(request)), sources)
