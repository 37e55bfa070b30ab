"""SQL of the catalog's tables of definitions and of the places that name them, for look-ups in milliseconds.

``symbols_mat``
    One row per definition: those that shape chunks and those of SCIP first (``structural``), then the other names of
    files and types. Each part is sorted by name in lower case and then the best first: precise, code before data,
    sources before tests, short names and paths before long ones. Where SCIP indexed the file, its definition and the
    syntax definition whose name starts at the same byte are one row: name, kind and signature are the syntax's, and
    so is the documentation when there is any. Locals, parameters and type parameters have no row. ``qualified_name``
    counts from the file, ``module`` is the dotted name of the file as in ``modules`` (of what holds it, for the file
    itself).
    ``symbol_id`` counts the rows; ``target_id`` is that of the first row with the same SCIP symbol,
    ``name_id`` that of the first with the same name.

``occurrences_mat``
    One row per place that names something, definitions included, sorted by what it names (``target_id``):

    - SCIP's occurrences (``precise``). Those of a symbol that has no row in ``symbols_mat`` have a ``target_id`` past
      the last ``symbol_id``; those of a local a negative one, which means something in that file alone.
    - Where SCIP has none: syntax definitions, under their own ``symbol_id``, and identifiers, under their ``name_id``.

    ``roles`` are bits: SCIP's 1 definition, 2 import, 4 write, 8 read, and from the syntax 256 call, 512 type.
    ``file`` is a row of ``files_mat``, ``chunk`` one of ``chunks_mat``; ``enclosing`` the ``symbol_id`` of the
    innermost function, type or module around the place, or -1.

``places_mat``
    The same rows, fewer columns, sorted by place.

``outside_mat``
    Symbols that the bundle names and does not define, such as those of the standard library.

``relations_mat``
    SCIP's relationships between two ``target_id``: ``role`` is definition, implementation, reference or
    type_definition, read "target_id is an <role> of related_id"; ``of_type``: the symbol is a class or the like.
"""

from __future__ import annotations

from codequarry.schemas.languages import DATA_LANGUAGES

DEFINITION, IMPORT, WRITE, READ, CALL, TYPE = 1, 2, 4, 8, 256, 512
"""Bits of ``roles``."""

_LOCAL = "starts_with(symbol, 'local ')"
# SCIP writes a parameter as "(name)" and a type parameter as "[name]" at the end of its symbol.
_PARAMETER = "(ends_with(symbol, ')') OR ends_with(symbol, ']'))"
_MODULE = "(ends_with(symbol, '/') OR ends_with(symbol, '/__init__:'))"
# "a/b/__init__.py" is "b" in "a", and so are the files that other languages read for a folder.
_MODULE_END = "(/__init__[.]pyi?|/index[.][cm]?[jt]sx?|/mod[.]rs|[.][^/.]*)$"


def _at(byte: str) -> str:
    """Return SQL for a byte of any file as one number, so that joins over ranges sort once; no file has 2^33 bytes."""
    table = byte.rpartition(".")[0]
    return f"({table + '.' if table else ''}file::BIGINT * 8589934592 + {byte})"


DATA = "lang IN ({})".format(", ".join(f"'{name}'" for name in sorted(DATA_LANGUAGES)))
"""Condition of a file in a language of data."""
PATH_CLASSES = ("source", "stub", "example", "test", "docs", "generated", "vendored")
"""Path classes in the order in which they rank."""
CLASS_RANK = f"list_position({list(PATH_CLASSES)}, path_class)"
"""Rank of each path class in that order, from 1."""

FILES = "SELECT (row_number() OVER (ORDER BY repo, path) - 1)::INTEGER AS file, files.* FROM files ORDER BY repo, path"

SYMBOLS = f"""
WITH described AS (
    -- scip-python describes some symbols in a document that only uses them.
    SELECT DISTINCT ON (repo, symbol) *
    FROM scip_symbols WHERE NOT {_LOCAL}
    ORDER BY repo, symbol, path = '', length(documentation) DESC, path
),
defined AS (
    SELECT occurrence.repo, occurrence.path, symbol, {_MODULE} AS module, start_byte, start_line, start_column,
           end_line, end_column, namespace, qualified_name, display_name, kind, signature, documentation,
           enclosing_symbol
    FROM scip_occurrences AS occurrence JOIN described USING (repo, symbol)
    WHERE is_definition AND NOT {_LOCAL} AND NOT {_PARAMETER}
),
merged AS (
    SELECT coalesce(node.repo, defined.repo) AS repo,
           coalesce(node.path, defined.path) AS path,
           coalesce(node.name, display_name) AS name,
           coalesce(node.qualified_name,
                    CASE WHEN namespace = '' THEN defined.qualified_name
                         ELSE defined.qualified_name[length(namespace) + 2:] END) AS qualified_name,
           coalesce(structural, true) OR symbol IS NOT NULL AS structural,
           coalesce(node.kind, CASE WHEN defined.kind <> 'term' THEN defined.kind
                                    WHEN ends_with(enclosing_symbol, '#') THEN 'attribute' ELSE 'variable' END) AS kind,
           node.parent AS node_parent,
           coalesce(symbol, '') AS symbol,
           coalesce(module, false) AS module,
           coalesce(defined.start_byte, name_start_byte) AS start_byte,
           coalesce(defined.start_line, name_start_line) AS start_line,
           coalesce(defined.start_column, name_start_column) AS start_column,
           coalesce(defined.end_line, name_start_line) AS end_line,
           coalesce(defined.end_column, name_start_column + strlen(node.name)) AS end_column,
           coalesce(node.start_line, defined.start_line) AS body_start_line,
           coalesce(node.end_line, defined.end_line) AS body_end_line,
           coalesce(node.start_byte, -1) AS body_start_byte,
           coalesce(node.end_byte, -1) AS body_end_byte,
           coalesce(node.signature, defined.signature) AS signature,
           CASE WHEN coalesce(doc, '') <> '' THEN doc ELSE trim(coalesce(documentation, ''), e' \\n\\t\\r') END
               AS documentation
    FROM (SELECT *, true AS structural FROM ast_nodes UNION ALL BY NAME
          SELECT *, false AS structural FROM ast_members) AS node
    FULL JOIN defined
    ON NOT module AND node.repo = defined.repo AND node.path = defined.path AND name_start_byte = defined.start_byte
),
-- A module is called after its file.
placed AS (
    SELECT merged.* EXCLUDE (name, qualified_name, kind, module, node_parent),
           file, lang, path_class,
           coalesce(file_module, replace(regexp_replace(path, '{_MODULE_END}', ''), '/', '.')) AS dotted,
           string_split(dotted, '.') AS parts,
           array_to_string(CASE WHEN module THEN parts[:-2] ELSE parts END, '.') AS module,
           CASE WHEN merged.module THEN parts[-1] ELSE name END AS name,
           CASE WHEN merged.module THEN parts[-1] ELSE qualified_name END AS qualified_name,
           CASE WHEN merged.module THEN 'module' ELSE kind END AS kind,
           coalesce(node_parent, CASE WHEN ends_with(qualified_name, '.' || name)
                                      THEN qualified_name[:-(length(name) + 2)] ELSE '' END) AS parent
    FROM merged JOIN files_mat USING (repo, path)
    LEFT JOIN (SELECT repo, path, module AS file_module FROM modules) USING (repo, path)
),
numbered AS (
    SELECT placed.*, lower(name) AS name_key, chunk.chunk_id,
           (row_number() OVER (
               ORDER BY NOT structural, lower(name), symbol = '', {DATA}, {CLASS_RANK}, length(qualified_name),
                        length(path), repo, path, placed.start_byte, symbol, body_start_byte, body_end_byte
           ) - 1)::INTEGER AS symbol_id
    FROM (SELECT *, {_at("start_byte")} AS place FROM placed) AS placed
    ASOF JOIN (SELECT chunk_id, {_at("start_byte")} AS place FROM chunks_mat) AS chunk
    ON placed.place >= chunk.place
)
SELECT symbol_id,
       CASE WHEN symbol = '' THEN symbol_id ELSE min(symbol_id) OVER (PARTITION BY symbol) END AS target_id,
       min(symbol_id) OVER (PARTITION BY name) AS name_id,
       repo, path, file, lang, path_class, name_key, name, qualified_name, module, kind, parent, structural,
       symbol, symbol <> '' AS precise, start_line, start_column, end_line, end_column, start_byte,
       body_start_line, body_end_line, body_start_byte, body_end_byte, signature, documentation, chunk_id
FROM numbered
ORDER BY symbol_id
"""

_TARGETS = f"""
SELECT DISTINCT symbol, target_id FROM symbols_mat WHERE precise
UNION ALL
SELECT symbol, (SELECT count(*) FROM symbols_mat) + row_number() OVER (ORDER BY symbol) - 1
FROM (SELECT DISTINCT symbol FROM scip_occurrences WHERE NOT {_LOCAL}) ANTI JOIN symbols_mat USING (symbol)
"""

_SYNTAX = f"""syntax AS (
    SELECT file, start_byte, start_line, start_column, name,
           CASE role WHEN 'call' THEN {CALL} WHEN 'type' THEN {TYPE} WHEN 'import' THEN {IMPORT} ELSE 0 END AS roles
    FROM ast_references JOIN files_mat USING (repo, path)
),"""

_PLACED = f"""-- Bodies are nested or apart: where so many are open, the innermost is the last that was opened so deep.
body AS (
    SELECT file, body_start_byte, body_end_byte, qualified_name, symbol_id
    FROM symbols_mat WHERE structural AND body_start_byte >= 0 AND body_start_byte < body_end_byte
),
edge AS (
    SELECT file, body_start_byte AS start_byte, 1 AS step, body_end_byte, qualified_name, symbol_id FROM body
    UNION ALL
    SELECT file, body_end_byte, -1, 0, '', -1 FROM body
),
opened AS (
    SELECT *, sum(step) OVER (
        PARTITION BY file ORDER BY start_byte, step, body_end_byte DESC, qualified_name DESC, symbol_id DESC
        ROWS UNBOUNDED PRECEDING
    ) AS depth
    FROM edge
    QUALIFY step = 1
),
segment AS (
    SELECT {_at("edge.start_byte")} AS place, coalesce(symbol_id, -1) AS enclosing
    FROM (SELECT DISTINCT file, start_byte, sum(step) OVER (PARTITION BY file ORDER BY start_byte) AS depth FROM edge)
        AS edge
    ASOF LEFT JOIN opened
    ON edge.file = opened.file AND edge.depth = opened.depth AND edge.start_byte >= opened.start_byte
)
SELECT target_id::INTEGER AS target_id, file, precise, roles::SMALLINT AS roles, start_line, start_column,
       end_line - start_line AS lines, end_column - start_column AS width,
       coalesce(enclosing, -1)::INTEGER AS enclosing, chunk
FROM (SELECT *, {_at("start_byte")} AS place FROM named) AS named
ASOF JOIN (SELECT rowid::INTEGER AS chunk, {_at("start_byte")} AS place FROM chunks_mat) AS chunk
ON named.place >= chunk.place
ASOF LEFT JOIN segment ON named.place >= segment.place
"""

OCCURRENCES = f"""
WITH target AS ({_TARGETS}),
{_SYNTAX}
scip AS (
    SELECT *, -dense_rank() OVER (PARTITION BY file, {_LOCAL} ORDER BY symbol) AS local_id
    FROM scip_occurrences JOIN files_mat USING (repo, path)
),
named AS (
    SELECT coalesce(target_id, local_id) AS target_id, scip.file, true AS precise,
           scip.roles | coalesce(syntax.roles, 0) AS roles, scip.start_byte, scip.start_line, scip.start_column,
           end_line, end_column
    FROM scip LEFT JOIN target USING (symbol) LEFT JOIN syntax USING (file, start_byte)
    UNION ALL
    SELECT name_id, file, false, roles, start_byte, start_line, start_column, start_line, start_column + strlen(name)
    FROM (SELECT * FROM syntax ANTI JOIN scip USING (file, start_byte))
    JOIN (SELECT DISTINCT name, name_id FROM symbols_mat) USING (name)
    UNION ALL
    SELECT symbol_id, file, false, {DEFINITION}, start_byte, start_line, start_column, end_line, end_column
    FROM symbols_mat WHERE NOT precise
),
{_PLACED}ORDER BY target_id, precise DESC, file, named.place, roles
"""

LINKED = f"""
WITH {_SYNTAX}
named AS (
    SELECT target_id, file, false AS precise, roles, start_byte, start_line, start_column, start_line AS end_line,
           start_column + strlen(name) AS end_column
    FROM syntax JOIN linked USING (name)
),
{_PLACED}ORDER BY ALL
"""
"""Rows as in ``occurrences_mat`` of the identifiers in ``ast_references`` that name what another version defines, whose
names and numbers are in ``linked (name, target_id)``."""

PLACES = """
SELECT file, start_line, start_column, lines, width, precise, roles, target_id FROM occurrences_mat ORDER BY ALL
"""

OUTSIDE = f"""
SELECT target_id::INTEGER AS target_id, symbol, coalesce(qualified_name, '') AS qualified_name,
       coalesce(kind, '') AS kind
FROM ({_TARGETS}) LEFT JOIN (
    SELECT symbol, max(qualified_name) AS qualified_name, max(kind) AS kind FROM scip_symbols GROUP BY symbol
) USING (symbol)
WHERE target_id >= (SELECT count(*) FROM symbols_mat) AND NOT {_PARAMETER}
ORDER BY target_id
"""

RELATIONS = f"""
WITH target AS ({_TARGETS}),
relation AS (
    SELECT symbol, ends_with(symbol, '#') AS of_type, split_part(each, ' ', 1) AS role,
           each[length(split_part(each, ' ', 1)) + 2:] AS related
    FROM (SELECT symbol, unnest(relationships) AS each FROM scip_symbols)
)
SELECT DISTINCT own.target_id::INTEGER AS target_id, other.target_id::INTEGER AS related_id, role, of_type
FROM relation JOIN target AS own USING (symbol) JOIN target AS other ON other.symbol = related
ORDER BY ALL
"""

_ENDS = (
    "lines INTEGER, width INTEGER, end_line INTEGER GENERATED ALWAYS AS (start_line + lines) VIRTUAL, "
    "end_column BIGINT GENERATED ALWAYS AS (start_column + width) VIRTUAL"
)
COLUMNS: dict[str, str] = {
    "symbols_mat": "symbol_id INTEGER, target_id INTEGER, name_id INTEGER, repo VARCHAR, path VARCHAR, file INTEGER, "
    "lang VARCHAR, path_class VARCHAR, name_key VARCHAR, name VARCHAR, qualified_name VARCHAR, module VARCHAR, "
    "kind VARCHAR, parent VARCHAR, structural BOOLEAN, symbol VARCHAR, precise BOOLEAN, start_line INTEGER, "
    "start_column INTEGER, end_line INTEGER, end_column BIGINT, start_byte BIGINT, body_start_line INTEGER, "
    "body_end_line INTEGER, body_start_byte BIGINT, body_end_byte BIGINT, signature VARCHAR USING COMPRESSION zstd, "
    "documentation VARCHAR USING COMPRESSION zstd, chunk_id BIGINT",
    "occurrences_mat": "target_id INTEGER, file INTEGER, precise BOOLEAN, roles SMALLINT, start_line INTEGER, "
    f"start_column INTEGER, {_ENDS}, enclosing INTEGER, chunk INTEGER",
    "places_mat": f"file INTEGER, start_line INTEGER, start_column INTEGER, {_ENDS}, precise BOOLEAN, roles SMALLINT, "
    "target_id INTEGER",
}
"""Columns of tables whose storage is chosen. Those of places hold how long a name is, and compute where it ends: nearly
all names of a symbol are equally long, and on one line. DuckDB takes zstd by itself for long strings alone."""

TABLES: dict[str, str] = {
    "symbols_mat": SYMBOLS,
    "occurrences_mat": OCCURRENCES,
    "places_mat": PLACES,
    "outside_mat": OUTSIDE,
    "relations_mat": RELATIONS,
}
