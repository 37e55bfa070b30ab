"""The packaged tree-sitter grammars: one row per language, with its package and its queries.

Definitions are found by one query per language, ``queries/<name>.scm``. Captures:

* ``@definition.<kind>``: a definition.
* ``@scope.<kind>``: a container that only qualifies names (a Rust ``impl``).
* ``@prefix.<kind>``: a signature, which belongs to the definition after it.
* ``@name``: the name of a definition; ``@text``: a name that is text; ``@head``: a Haskell type that is named by its
  head.
* ``@qualifier``: a prefix written inside the definition itself (the receiver of a Go method).
* ``@body``: the body, if no field of the grammar tells it.
* ``@parameters``: the parameters that tell functions of one name apart.
* ``@attribute``: stands above a definition and belongs to it; a string in it is its ``@doc``.
* ``@inside``: a string that documents the enclosing definition.

Captures that begin with ``_`` serve predicates. When two patterns capture the same node and name, the earlier one wins,
so specific patterns precede general ones. A pattern with ``#set! extent "rest"`` reaches to the end of the file.

References are found by ``queries/references/<name>.scm``. Captures:

* ``@name``: any identifier; ``@call`` and ``@type``: one in that role.
* ``@dotted``: a type named by a path.
* ``@skip``: an identifier that names no definition.
* ``@import``: a statement in which every name is an import.

Module facts are found by ``queries/modules/<name>.scm``. Captures:

* ``@source``: the imported module; ``@name`` and ``@alias``: a name taken from it and its local name.
* ``@clause``: an import statement whose text is enough.
* ``@path``: an expression that gives a path; ``@beside``: a path relative to the file.
* ``@module``: a child module declared.
* ``@export``: an exported name; ``@listed``: an expression that lists some; ``@only``: there are no others.
* ``@skip``: a name that is not exported after all.
* ``@package``: the package declared; ``@entry``: code that makes the file a program.
* ``@branch``: a decision point; ``@plain``: a statement that only imports or exports.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.schemas.errors import NotFoundError

if TYPE_CHECKING:
    from tree_sitter import Language, Query


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """Package of a grammar, and the queries that find definitions."""

    module: str
    queries: tuple[str, ...]
    """Files of ``queries/`` that are read as one."""
    references: tuple[str, ...] = ()
    """Files of ``queries/references/`` that are read as one; none for data and markup."""
    modules: tuple[str, ...] = ()
    """Files of ``queries/modules/`` that are read as one; none for data and markup."""
    function: str = "language"
    literal_names: bool = False
    """Names are text, such as headings and keys, rather than identifiers joined by dots."""
    docstrings: bool = False
    """The first string of a body documents its definition, before any comment above it."""
    clauses: bool = False
    """A definition may be written in several statements side by side: clauses, and a signature before them."""
    max_line_depth: int | None = None
    """Levels one line may open; None for any. The YAML scanner writes past its buffer at about 250 of them."""
    body_fields: tuple[str, ...] = ("body", "consequence")
    body_kinds: frozenset[str] = frozenset()
    """Kinds of the nodes that are bodies, in grammars without a field for bodies."""


_DATA = ("value",)
_DO = frozenset({"do_block"})
_HASKELL_BODIES = ("match", "declarations", "closed_family")
_KOTLIN_BODIES = frozenset({"function_body", "class_body", "enum_class_body"})

_ECMASCRIPT = ("ecmascript", "jsx", "javascript")
_TYPESCRIPT = ("ecmascript", "typescript")
_TSX = ("ecmascript", "typescript", "jsx")

GRAMMARS: dict[str, GrammarSource] = {
    "python": GrammarSource("tree_sitter_python", ("python",), ("python",), ("python",), docstrings=True),
    "javascript": GrammarSource("tree_sitter_javascript", ("ecmascript", "javascript"), _ECMASCRIPT, ("ecmascript",)),
    "typescript": GrammarSource("tree_sitter_typescript", _TYPESCRIPT, _TYPESCRIPT, _TYPESCRIPT, "language_typescript"),
    "tsx": GrammarSource("tree_sitter_typescript", _TYPESCRIPT, _TSX, _TYPESCRIPT, "language_tsx"),
    "go": GrammarSource("tree_sitter_go", ("go",), ("go",), ("go",)),
    "rust": GrammarSource("tree_sitter_rust", ("rust",), ("rust",), ("rust",)),
    "java": GrammarSource("tree_sitter_java", ("java",), ("java",), ("java",)),
    "c": GrammarSource("tree_sitter_c", ("c",), ("c",), ("c",)),
    "cpp": GrammarSource("tree_sitter_cpp", ("c", "cpp"), ("c", "cpp"), ("c", "cpp")),
    "csharp": GrammarSource("tree_sitter_c_sharp", ("csharp",), ("csharp",), ("csharp",)),
    "ruby": GrammarSource("tree_sitter_ruby", ("ruby",), ("ruby",), ("ruby",)),
    "php": GrammarSource("tree_sitter_php", ("php",), ("php",), ("php",), "language_php"),
    "kotlin": GrammarSource("tree_sitter_kotlin", ("kotlin",), ("kotlin",), ("kotlin",), body_kinds=_KOTLIN_BODIES),
    "swift": GrammarSource("tree_sitter_swift", ("swift",), ("swift",), ("swift",)),
    "scala": GrammarSource("tree_sitter_scala", ("scala",), ("scala",), ("scala",)),
    "elixir": GrammarSource("tree_sitter_elixir", ("elixir",), ("elixir",), ("elixir",), clauses=True, body_kinds=_DO),
    "haskell": GrammarSource(
        "tree_sitter_haskell", ("haskell",), ("haskell",), ("haskell",), clauses=True, body_fields=_HASKELL_BODIES
    ),
    "lua": GrammarSource("tree_sitter_lua", ("lua",), ("lua",), ("lua",)),
    "zig": GrammarSource("tree_sitter_zig", ("zig",), ("zig",), ("zig",)),
    "bash": GrammarSource("tree_sitter_bash", ("bash",), ("bash",), ("bash",)),
    "sql": GrammarSource("tree_sitter_sql", ("sql",), ("sql",), ("sql",), body_kinds=frozenset({"function_body"})),
    "html": GrammarSource("tree_sitter_html", ("html",), literal_names=True),
    "css": GrammarSource("tree_sitter_css", ("css",), literal_names=True, body_kinds=frozenset({"block"})),
    "markdown": GrammarSource("tree_sitter_markdown", ("markdown",), literal_names=True),
    "toml": GrammarSource("tree_sitter_toml", ("toml",), literal_names=True),
    "yaml": GrammarSource("tree_sitter_yaml", ("yaml",), literal_names=True, body_fields=_DATA, max_line_depth=200),
    "json": GrammarSource("tree_sitter_json", ("json",), literal_names=True, body_fields=_DATA),
}

_COMMENTS = frozenset(
    {"comment", "line_comment", "block_comment", "multiline_comment", "js_comment", "marginalia", "haddock"}
)
_ATTRIBUTES = frozenset({"decorator", "attribute_item", "attribute_list", "attribute_declaration"})
_PREFIXES = frozenset({"template_parameter_list", "requires_clause"})
_HEADINGS = frozenset({"atx_heading", "setext_heading", "start_tag"})
_LISTS = frozenset({"statement_list", "imports", "declarations"})
_WRAPPED_FIELDS = ("declaration", "definition")
_VALUE_FIELDS = ("value", "right", "type")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A loaded grammar. Immutable, so threads may share it."""

    name: str
    language: Language
    query: Query
    """Definitions, scopes, and comments and attributes above them."""
    references: Query | None
    """Identifiers; None for data and markup."""
    modules: Query | None
    """Imports, exports and decision points; None for data and markup."""
    literal_names: bool
    docstrings: bool
    clauses: bool
    max_line_depth: int | None
    comment_kinds: frozenset[int]
    """Node kinds that are comments."""
    attribute_kinds: frozenset[int]
    """Node kinds that stand between a definition and the comment above it, such as decorators."""
    leading_kinds: frozenset[int]
    """Node kinds that belong to what follows them: comments, attributes, decorators, headings."""
    list_kinds: frozenset[int]
    """Node kinds that only hold the statements of a body."""
    body_kinds: frozenset[int]
    """Node kinds that are the body of their parent, in grammars without a field for bodies."""
    body_fields: tuple[int, ...]
    """Fields of a node that follows a header (``def f():``) and should stay with it."""
    wrapped_fields: tuple[int, ...]
    """Fields of a definition that follows a modifier (``export``) and should stay with it."""
    value_fields: tuple[int, ...]
    """Fields through which a definition reaches the function or type it gives a name to."""
    open_patterns: frozenset[int]
    """Patterns of the query whose capture reaches to the end of the file."""


@cache
def grammar(name: str) -> Grammar:
    """Return the grammar of this name, imported on first use.

    Args:
        name: Key of ``GRAMMARS``.

    Returns:
        The loaded grammar.

    Raises:
        NotFoundError: The name is not in ``GRAMMARS``.
    """
    source = GRAMMARS.get(name)
    if source is None:
        raise NotFoundError(f"no grammar is named {name!r}", suggestion=f"Known grammars: {', '.join(GRAMMARS)}.")
    tree_sitter = importlib.import_module("tree_sitter")
    language = tree_sitter.Language(getattr(importlib.import_module(source.module), source.function)())
    query = tree_sitter.Query(language, _definitions_query(language, source.queries))
    references = tree_sitter.Query(language, _read("references", source.references)) if source.references else None
    modules = tree_sitter.Query(language, _read("modules", source.modules)) if source.modules else None
    return Grammar(
        name=name,
        language=language,
        query=query,
        references=references,
        modules=modules,
        literal_names=source.literal_names,
        docstrings=source.docstrings,
        clauses=source.clauses,
        max_line_depth=source.max_line_depth,
        comment_kinds=_kind_ids(language, _COMMENTS),
        attribute_kinds=_kind_ids(language, _ATTRIBUTES),
        leading_kinds=_kind_ids(language, _COMMENTS | _ATTRIBUTES | _PREFIXES | _HEADINGS),
        list_kinds=_kind_ids(language, _LISTS),
        body_kinds=_kind_ids(language, source.body_kinds),
        body_fields=_field_ids(language, source.body_fields),
        wrapped_fields=_field_ids(language, _WRAPPED_FIELDS),
        value_fields=_field_ids(language, _VALUE_FIELDS),
        open_patterns=frozenset(at for at in range(query.pattern_count) if "extent" in query.pattern_settings(at)),
    )


def _definitions_query(language: Language, names: tuple[str, ...]) -> str:
    """Return the queries of a language as one, with a pattern for comments and attributes above definitions."""
    wanted = _kind_ids(language, _COMMENTS | _ATTRIBUTES | _PREFIXES)
    kinds = {language.node_kind_for_id(kind) for kind in wanted if language.node_kind_is_named(kind)}
    return "\n".join([_read(".", names), *(f"({kind}) @leading" for kind in sorted(filter(None, kinds)))])


def _read(folder: str, names: tuple[str, ...]) -> str:
    queries = Path(__file__).parent / "queries" / folder
    return "\n".join((queries / f"{name}.scm").read_text(encoding="utf-8") for name in names)


def _kind_ids(language: Language, names: frozenset[str]) -> frozenset[int]:
    return frozenset(kind for kind in range(language.node_kind_count) if language.node_kind_for_id(kind) in names)


def _field_ids(language: Language, names: tuple[str, ...]) -> tuple[int, ...]:
    ids = (language.field_id_for_name(name) for name in names)
    return tuple(field for field in ids if field is not None)
