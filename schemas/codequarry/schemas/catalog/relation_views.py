"""SQL of the views over relations between definitions: ``calls``, ``inherits`` and ``tests_of``.

They hold what the tables alone tell. Where SCIP is silent, a name is ``resolved`` when the file itself or one that it
imports defines the only function or type of that name, and else known ``by name``. The tool ``relations`` reads the
texts too, and so tells more methods of one name apart.
"""

from __future__ import annotations

from codequarry.schemas.catalog.symbol_views import CALL, DEFINITION, IMPORT, TYPE
from codequarry.schemas.kinds import stored_kinds


def _literals(kinds: list[str]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)


_CALLABLE = _literals(stored_kinds(["function", "method", "macro"]))
_TYPES = _literals(stored_kinds(["type"]))
_MOST_OF_NAME = 10
"""Definitions of a name in a repository beyond which the name alone says nothing."""

_USES = """
SELECT place.file, place.start_line, place.start_column, place.enclosing, files_mat.repo, files_mat.path, place.precise,
       target.symbol_id, target.qualified_name, target.path AS target_path, target.start_line AS target_line,
       NOT place.precise AND NOT contains(target.qualified_name, '.')
           AND (target.file = place.file OR list_contains(modules.resolved, target.path)) AS near
FROM occurrences_mat AS place
JOIN files_mat USING (file)
JOIN symbols_mat AS target
  ON (CASE WHEN place.precise THEN target.symbol_id ELSE target.name_id END) = place.target_id
 AND (place.precise OR target.repo = files_mat.repo)
LEFT JOIN modules ON modules.repo = files_mat.repo AND modules.path = files_mat.path
WHERE place.target_id >= 0 AND place.roles & {role} <> 0 AND place.roles & {absent} = 0 AND target.kind IN ({kinds})
"""
_JUDGED = """
SELECT *, CASE WHEN precise THEN 'exact' WHEN near AND near_ones = 1 THEN 'resolved' ELSE 'by name' END AS evidence
FROM (SELECT *, count(*) OVER place AS ones, count(*) FILTER (near) OVER place AS near_ones FROM ({uses})
      WINDOW place AS (PARTITION BY file, start_line, start_column))
WHERE precise OR near OR (near_ones = 0 AND ones <= {most})
"""


def _judged(role: int, absent: int, kinds: str) -> str:
    """Return the SQL of places that use a definition, with what each may mean and the evidence for it."""
    return _JUDGED.format(uses=_USES.format(role=role, absent=absent, kinds=kinds), most=_MOST_OF_NAME)


CALLS = f"""
SELECT coalesce(caller.symbol_id, -1) AS caller_id, coalesce(caller.qualified_name, '') AS caller, used.repo, used.path,
       used.start_line, used.symbol_id AS callee_id, used.qualified_name AS callee, target_path AS callee_path,
       target_line AS callee_line, evidence
FROM ({_judged(CALL, DEFINITION | IMPORT, f"{_CALLABLE}, {_TYPES}")}) AS used
LEFT JOIN symbols_mat AS caller ON caller.symbol_id = used.enclosing
"""
_BEHIND_NAME = "signature[instr(signature, name) + length(name):]"
INHERITS = f"""
WITH types AS (SELECT *, {_BEHIND_NAME} AS head FROM symbols_mat WHERE kind IN ({_TYPES}))
SELECT types.symbol_id AS type_id, types.qualified_name AS type, types.repo, types.path, types.start_line,
       base.symbol_id AS base_id, base.qualified_name AS base, base.path AS base_path, 'exact' AS evidence
FROM relations_mat JOIN types USING (target_id)
JOIN symbols_mat AS base ON base.symbol_id = relations_mat.related_id
WHERE role = 'implementation' AND of_type
UNION
SELECT types.symbol_id, types.qualified_name, types.repo, types.path, types.start_line, used.symbol_id,
       used.qualified_name, target_path, evidence
FROM ({_judged(TYPE, DEFINITION | IMPORT, _TYPES)}) AS used
JOIN types ON types.symbol_id = used.enclosing
WHERE NOT used.precise AND types.symbol_id <> used.symbol_id AND used.start_line >= types.start_line
  AND regexp_matches(types.head, '(^|\\W)' || regexp_escape(split_part(used.qualified_name, '.', -1)) || '(\\W|$)')
"""
_STEM = "regexp_replace(regexp_replace(path, '^.*/', ''), '[.].*$', '')"
_PLAIN_STEM = f"lower(regexp_replace({_STEM}, '(?i)(^tests?_|_tests?$|_spec$|tests?$|spec$)', ''))"
TESTS_OF = f"""
WITH tests AS (SELECT repo, path, {_PLAIN_STEM} AS stem FROM files_mat WHERE path_class = 'test'),
sources AS (SELECT repo, path, lower({_STEM}) AS stem FROM files_mat WHERE path_class IN ('source', 'stub'))
SELECT DISTINCT calls.repo, calls.path AS test, callee_path AS path, callee AS definition, 'calls' AS reason, evidence
FROM calls JOIN tests ON tests.repo = calls.repo AND tests.path = calls.path
JOIN sources ON sources.repo = calls.repo AND sources.path = calls.callee_path
UNION ALL
SELECT repo, tests.path, sources.path, '', 'imports', 'resolved'
FROM (SELECT repo, path, unnest(resolved) AS imported FROM modules) AS modules
JOIN tests USING (repo, path) JOIN sources USING (repo)
WHERE sources.path = imported
UNION ALL
SELECT repo, tests.path, sources.path, '', 'name', 'by name' FROM tests JOIN sources USING (repo, stem) WHERE stem <> ''
"""

RELATION_VIEWS: dict[str, str] = {"calls": CALLS, "inherits": INHERITS, "tests_of": TESTS_OF}
"""SELECT statements by name of the view, for a session; a later one may read an earlier one."""
