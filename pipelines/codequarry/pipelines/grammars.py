"""The packaged tree-sitter grammars and, for each, one query that finds its definitions.

Captures: ``@definition.<kind>`` is a definition, ``@scope.<kind>`` a container that only qualifies names (a Rust
``impl``), ``@name`` its name, ``@qualifier`` a prefix written inside the definition itself (the receiver of a Go
method). Where two patterns capture the same node and name, the earlier one wins, so specific patterns precede general
ones. A pattern with ``#set! extent "rest"`` reaches to the end of the file.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from codequarry.schemas.errors import MissingExtraError, NotFoundError

if TYPE_CHECKING:
    from tree_sitter import Language, Query

_PYTHON = """
(function_definition name: (_) @name) @definition.function
(class_definition name: (_) @name) @definition.class
(type_alias_statement left: (type (identifier) @name)) @definition.type
(module (expression_statement (assignment left: (identifier) @name)) @definition.constant
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
"""

_ECMASCRIPT = """
(function_declaration name: (_) @name) @definition.function
(generator_function_declaration name: (_) @name) @definition.function
(class_declaration name: (_) @name) @definition.class
(method_definition name: (_) @name) @definition.method
(variable_declarator name: (identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(variable_declarator name: (identifier) @name value: (object)) @scope.object
(pair key: (property_identifier) @name
  value: [(arrow_function) (function_expression) (generator_function)]) @definition.method
(pair key: (property_identifier) @name value: (object)) @scope.object
(expression_statement (assignment_expression left: (member_expression) @name
  right: [(arrow_function) (function_expression) (generator_function)])) @definition.function
(expression_statement (assignment_expression left: (member_expression) @name right: (class))) @definition.class
(program (lexical_declaration "const" (variable_declarator name: (identifier) @name
  value: [(string) (template_string) (number) (true) (false) (null) (regex) (array) (object) (new_expression)
    (call_expression) (member_expression) (unary_expression) (binary_expression)]) @definition.constant)
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
(program (export_statement (lexical_declaration "const" (variable_declarator name: (identifier) @name
  value: [(string) (template_string) (number) (true) (false) (null) (regex) (array) (object) (new_expression)
    (call_expression) (member_expression) (unary_expression) (binary_expression)]) @definition.constant))
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
"""

_JAVASCRIPT = (
    _ECMASCRIPT
    + """
(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @definition.method
"""
)

_TYPESCRIPT = (
    _ECMASCRIPT
    + """
(public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @definition.method
(abstract_class_declaration name: (_) @name) @definition.class
(interface_declaration name: (_) @name) @definition.interface
(enum_declaration name: (_) @name) @definition.enum
(type_alias_declaration name: (_) @name) @definition.type
(internal_module name: (_) @name) @definition.namespace
(module name: (_) @name) @definition.module
(function_signature name: (_) @name) @definition.function
(method_signature name: (_) @name) @definition.method
(abstract_method_signature name: (_) @name) @definition.method
"""
)

_GO = """
(function_declaration name: (_) @name) @definition.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @qualifier
    (generic_type type: (type_identifier) @qualifier)
    (pointer_type [(type_identifier) @qualifier (generic_type type: (type_identifier) @qualifier)])]))
  name: (_) @name) @definition.method
(method_declaration name: (_) @name) @definition.method
(type_spec name: (_) @name type: (struct_type)) @definition.struct
(type_spec name: (_) @name type: (interface_type)) @definition.interface
(type_spec name: (_) @name) @definition.type
(type_alias name: (_) @name) @definition.type
(method_elem name: (_) @name) @definition.method
(var_spec name: (_) @name value: (expression_list (func_literal))) @definition.function
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
"""

_RUST = """
(function_item name: (_) @name) @definition.function
(function_signature_item name: (_) @name) @definition.function
(struct_item name: (_) @name) @definition.struct
(union_item name: (_) @name) @definition.struct
(enum_item name: (_) @name) @definition.enum
(trait_item name: (_) @name) @definition.trait
(mod_item name: (_) @name body: (_)) @definition.module
(type_item name: (_) @name) @definition.type
(const_item name: (_) @name) @definition.constant
(static_item name: (_) @name) @definition.constant
(macro_definition name: (_) @name) @definition.macro
(impl_item type: [
  (generic_type type: [(type_identifier) @name (scoped_type_identifier name: (_) @name)])
  (scoped_type_identifier name: (_) @name)
  (reference_type type: (_) @name)]) @scope.impl
(impl_item type: [
  (type_identifier) (primitive_type) (array_type) (tuple_type) (pointer_type) (dynamic_type) (unit_type)
  ] @name) @scope.impl
"""

_JAVA = """
(class_declaration name: (_) @name) @definition.class
(record_declaration name: (_) @name) @definition.class
(interface_declaration name: (_) @name) @definition.interface
(annotation_type_declaration name: (_) @name) @definition.interface
(enum_declaration name: (_) @name) @definition.enum
(method_declaration name: (_) @name) @definition.method
(constructor_declaration name: (_) @name) @definition.method
(compact_constructor_declaration name: (_) @name) @definition.method
(constant_declaration declarator: (variable_declarator name: (_) @name)) @definition.constant
(field_declaration (modifiers "static") declarator: (variable_declarator name: (_) @name)
  (#match? @name "^[A-Z][A-Z0-9_]*$")) @definition.constant
"""

_C = """
(function_definition declarator: [
  (function_declarator declarator: (_) @name)
  (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))
  ]) @definition.function
(struct_specifier name: (_) @name body: (_)) @definition.struct
(union_specifier name: (_) @name body: (_)) @definition.struct
(enum_specifier name: (_) @name body: (_)) @definition.enum
(type_definition type: [(struct_specifier !name body: (_)) (union_specifier !name body: (_))]
  declarator: (type_identifier) @name) @definition.struct
(type_definition type: (enum_specifier !name body: (_)) declarator: (type_identifier) @name) @definition.enum
(type_definition declarator: (type_identifier) @name) @definition.type
(type_definition declarator: (function_declarator
  declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @definition.type
(preproc_function_def name: (_) @name) @definition.macro
(preproc_def name: (_) @name value: (_)) @definition.constant
"""

_CPP = (
    _C
    + """
(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name)))
  @definition.function
(class_specifier name: (_) @name body: (_)) @definition.class
(namespace_definition name: (_) @name) @definition.namespace
(concept_definition name: (_) @name) @definition.type
(alias_declaration name: (_) @name) @definition.type
"""
)

_CSHARP = """
(namespace_declaration name: (_) @name) @definition.namespace
((file_scoped_namespace_declaration name: (_) @name) @scope.namespace (#set! extent "rest"))
(class_declaration name: (_) @name) @definition.class
(record_declaration name: (_) @name) @definition.class
(struct_declaration name: (_) @name) @definition.struct
(interface_declaration name: (_) @name) @definition.interface
(enum_declaration name: (_) @name) @definition.enum
(delegate_declaration name: (_) @name) @definition.type
(method_declaration name: (_) @name) @definition.method
(constructor_declaration name: (_) @name) @definition.method
(local_function_statement name: (_) @name) @definition.function
(field_declaration (modifier "const") (variable_declaration (variable_declarator name: (_) @name)))
  @definition.constant
"""

_RUBY = """
(module name: (_) @name) @definition.module
(class name: (_) @name) @definition.class
(method name: (_) @name) @definition.method
(singleton_method name: (_) @name) @definition.method
(assignment left: (constant) @name) @definition.constant
"""


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """Where a grammar comes from and how its definitions are found."""

    module: str
    query: str
    function: str = "language"


GRAMMARS: dict[str, GrammarSource] = {
    "python": GrammarSource("tree_sitter_python", _PYTHON),
    "javascript": GrammarSource("tree_sitter_javascript", _JAVASCRIPT),
    "typescript": GrammarSource("tree_sitter_typescript", _TYPESCRIPT, "language_typescript"),
    "tsx": GrammarSource("tree_sitter_typescript", _TYPESCRIPT, "language_tsx"),
    "go": GrammarSource("tree_sitter_go", _GO),
    "rust": GrammarSource("tree_sitter_rust", _RUST),
    "java": GrammarSource("tree_sitter_java", _JAVA),
    "c": GrammarSource("tree_sitter_c", _C),
    "cpp": GrammarSource("tree_sitter_cpp", _CPP),
    "csharp": GrammarSource("tree_sitter_c_sharp", _CSHARP),
    "ruby": GrammarSource("tree_sitter_ruby", _RUBY),
}

_LEADING_NODES = frozenset(
    {
        "comment",
        "line_comment",
        "block_comment",
        "decorator",
        "attribute_item",
        "attribute_list",
        "attribute_declaration",
        "template_parameter_list",
        "requires_clause",
    }
)
_LIST_NODES = frozenset({"statement_list"})
_BODY_FIELDS = ("body", "consequence")
_WRAPPED_FIELDS = ("declaration", "definition")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A loaded grammar. Immutable, so threads may share it."""

    name: str
    language: Language
    query: Query
    leading_kinds: frozenset[int]
    """Node kinds that belong to the definition after them: comments, attributes, decorators."""
    list_kinds: frozenset[int]
    """Node kinds that only hold the statements of a body."""
    body_fields: tuple[int, ...]
    """Fields of a node that follows a header (``def f():``) which should not be torn from it."""
    wrapped_fields: tuple[int, ...]
    """Fields of a definition that follows a modifier (``export``) which should not be torn from it."""
    open_patterns: frozenset[int]
    """Patterns of the query whose capture reaches to the end of the file."""


@cache
def grammar(name: str) -> Grammar:
    """The grammar of this name, imported on first use.

    Raises NotFoundError for a name outside ``GRAMMARS`` and MissingExtraError when its package is not installed.
    """
    source = GRAMMARS.get(name)
    if source is None:
        raise NotFoundError(f"no grammar is named {name!r}", suggestion=f"Known grammars: {', '.join(GRAMMARS)}.")
    try:
        tree_sitter = importlib.import_module("tree_sitter")
        module = importlib.import_module(source.module)
    except ImportError as error:
        raise MissingExtraError(
            f"the {name} grammar needs {error.name}, which is not installed",
            suggestion="Install the pipeline: pip install 'codequarry[build]'.",
        ) from error
    language = tree_sitter.Language(getattr(module, source.function)())
    query = tree_sitter.Query(language, source.query)
    return Grammar(
        name=name,
        language=language,
        query=query,
        leading_kinds=_kind_ids(language, _LEADING_NODES),
        list_kinds=_kind_ids(language, _LIST_NODES),
        body_fields=_field_ids(language, _BODY_FIELDS),
        wrapped_fields=_field_ids(language, _WRAPPED_FIELDS),
        open_patterns=frozenset(at for at in range(query.pattern_count) if "extent" in query.pattern_settings(at)),
    )


def _kind_ids(language: Language, names: frozenset[str]) -> frozenset[int]:
    return frozenset(kind for kind in range(language.node_kind_count) if language.node_kind_for_id(kind) in names)


def _field_ids(language: Language, names: tuple[str, ...]) -> tuple[int, ...]:
    ids = (language.field_id_for_name(name) for name in names)
    return tuple(field for field in ids if field is not None)
