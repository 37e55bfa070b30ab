"""Tools of a fleet: how each answers from many bundles, and the functions by which bundles are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from codequarry.serving.fleet.browse_answers import (
    merge_descriptions,
    merge_files,
    merge_get_scope,
    merge_outlines,
    merge_overviews,
    merge_set_scope,
)
from codequarry.serving.fleet.fleet_call import FleetCall
from codequarry.serving.fleet.place_answers import merge_definitions, merge_matches, merge_references, merge_relations
from codequarry.serving.fleet.ranked_answers import merge_connector_search, merge_explore, merge_pro, merge_search
from codequarry.serving.fleet.read_answers import merge_connector_fetch, merge_fetch, merge_resource
from codequarry.serving.server.chatgpt import connector_fetch, connector_search
from codequarry.serving.tools.browse.explore import explore
from codequarry.serving.tools.browse.list_files import list_files
from codequarry.serving.tools.browse.outline import outline
from codequarry.serving.tools.browse.overview import overview
from codequarry.serving.tools.browse.resource import read_resource
from codequarry.serving.tools.context import ToolFunction
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.describe import describe_index
from codequarry.serving.tools.fetch import fetch
from codequarry.serving.tools.pro import semantic_search_pro
from codequarry.serving.tools.references import find_references
from codequarry.serving.tools.relations.relations import relations
from codequarry.serving.tools.scopes import get_scope, set_scope
from codequarry.serving.tools.search import search
from codequarry.serving.tools.text_search.grep import search_code

MERGED: dict[ToolFunction, Callable[[FleetCall, Any], BaseModel]] = {
    search: merge_search,
    semantic_search_pro: merge_pro,
    explore: merge_explore,
    connector_search: merge_connector_search,
    fetch: merge_fetch,
    read_resource: merge_resource,
    connector_fetch: merge_connector_fetch,
    search_code: merge_matches,
    go_to_definition: merge_definitions,
    find_references: merge_references,
    relations: merge_relations,
    outline: merge_outlines,
    list_files: merge_files,
    overview: merge_overviews,
    describe_index: merge_descriptions,
    set_scope: merge_set_scope,
    get_scope: merge_get_scope,
}
