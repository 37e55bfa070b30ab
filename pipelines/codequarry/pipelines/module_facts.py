"""What a file is as a module: what it imports and offers, what it says of itself, how much it branches.

All of it comes from one query over the tree that chunking parsed; which file an import means is for ``modules``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from codequarry.pipelines.ast_nodes import clean_docstring
from codequarry.pipelines.definitions import Outline, docstring_range
from codequarry.pipelines.import_clauses import MAX_CLAUSE_BYTES, MAX_SOURCE_CHARS, child_module, clause_names
from codequarry.pipelines.module_docs import leading_doc
from codequarry.pipelines.module_exports import is_program, offered, qualified
from codequarry.pipelines.source_text import SourceText, blank, inked_lines
from codequarry.schemas.records import AstNode, Import, ModuleFacts

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from codequarry.pipelines.grammars import Grammar

_STRING = re.compile(rb"""(["'])(\w+)\1""")
_SEPARATOR = re.compile(r"\\|::")


def module_facts(
    grammar: Grammar, tree: Tree, outline: Outline, nodes: tuple[AstNode, ...], text: SourceText
) -> ModuleFacts | None:
    """The facts of one file; None for data and markup.

    nodes: its definitions, as ``ast_nodes`` tells them.
    """
    if grammar.modules is None:
        return None
    found = _Found(grammar.name, text.data)
    found.read(grammar, tree)
    package = ".".join(found.packages if grammar.name == "scala" else found.packages[:1])
    top = docstring_range(tree.root_node) if grammar.docstrings else (0, 0)
    documentation = [
        top,
        *((comment.start, comment.end) for comment in outline.leading if comment.is_comment),
        *(above.doc for above in outline.leading),
        *(definition.docstring for definition in outline.definitions),
    ]
    code = bytearray(text.data)
    for start, end in documentation:
        blank(code, start, end)
    code_lines = inked_lines(code)
    imports = found.sorted_imports()
    defines = any(node.kind != "module" for node in nodes)  # Rust declares the modules that it imports
    only_imports = not defines and bool(found.plain) and not _more_than(found.plain, code)
    exports = [*offered(grammar.name, package, found.offers(), found.lists_names, nodes), *found.passed_on]
    if grammar.name == "python" and only_imports and not found.lists_names:
        exports += (
            here
            for one in imports
            if one.source.startswith(".")
            for _, here in one.names
            if here[:1] not in ("", "_", "*")
        )
    if top[1]:
        doc = clean_docstring(text.data[top[0] : top[1]].decode("utf-8", "replace"))
    else:
        doc = leading_doc(text.data, outline.leading, nodes)
        if not doc and grammar.name == "elixir" and len(found.packages) == 1:
            doc = next((node.doc for node in nodes if node.qualified_name == package), "")
    return ModuleFacts(
        package=package,
        doc=doc,
        imports=imports,
        exports=tuple(dict.fromkeys(exports)),
        defined=qualified(grammar.name, package, nodes),
        branches=len(found.branches),
        code_lines=code_lines,
        comment_lines=inked_lines(text.data) - code_lines,
        entry_point=found.entry or is_program(grammar.name, package, nodes, text.data),
        only_imports=only_imports,
    )


class _Found:
    """What the query captured in one file."""

    def __init__(self, language: str, data: bytes) -> None:
        self._language = language
        self._data = data
        self._taken: dict[int, tuple[str, list[tuple[str, str]]]] = {}
        """Source and names by where the source is written."""
        self._whole: dict[int, list[str]] = {}
        """Sources without names, by where their statement starts."""
        self._exports: dict[int, str] = {}
        self._skipped: set[int] = set()
        self.packages: list[str] = []
        self.branches: set[tuple[int, int]] = set()
        self.plain: list[tuple[int, int]] = []
        self.passed_on: list[str] = []
        """Names it imports in order to offer them."""
        self.entry = False
        self.lists_names = False
        """It says itself which names it offers."""

    def read(self, grammar: Grammar, tree: Tree) -> None:
        """Run the query."""
        from tree_sitter import QueryCursor

        assert grammar.modules is not None
        for _, captures in QueryCursor(grammar.modules).matches(tree.root_node):
            if "branch" in captures:
                self.branches.update(node.byte_range for node in captures["branch"])
                continue
            self.plain += (node.byte_range for node in captures.get("plain", ()))
            self.packages += (_dotted(self._text(node)) for node in captures.get("package", ()))
            self.entry = self.entry or "entry" in captures
            self._skipped.update(node.start_byte for node in captures.get("skip", ()))
            for node in captures.get("export", ()):
                self._exports[node.start_byte] = self._text(node)
            self.lists_names = self.lists_names or "only" in captures
            for node in captures.get("listed", ()):
                self._listed(node)
            self._imports(captures)

    def _imports(self, captures: dict[str, list[Node]]) -> None:
        for node in captures.get("source", ()):
            _, names = self._taken.setdefault(node.start_byte, (self._text(node), []))
            here = [self._text(alias) for alias in captures.get("alias", ())]
            there = [self._text(name) for name in captures.get("name", ())] or (["default"] if here else [])
            names += zip(there, here or there, strict=False)
        for node in captures.get("clause", ()):
            written = self._data[node.start_byte : min(node.end_byte, node.start_byte + MAX_CLAUSE_BYTES)]
            names = clause_names(node, written.decode("utf-8", "replace"), self._language)
            self._whole[node.start_byte] = [source for source, _ in names]
            if self._language == "rust" and written.startswith(b"pub "):
                self.passed_on += (here for _, here in names if here not in ("*", "_"))
        for node in captures.get("module", ()):
            self._whole[node.start_byte] = [child_module(node, self._text(node))]
        for node in captures.get("path", ()):
            self._whole[node.start_byte] = [self._text(node)]
        for node in captures.get("beside", ()):
            path = self._text(node)
            self._whole[node.start_byte] = [path if path.startswith((".", "/")) else f"./{path}"]

    def _text(self, node: Node) -> str:
        # The node's own ``text`` would read the file again through the parser's callback.
        start, end = node.byte_range
        written = self._data[start : min(end, start + 4 * MAX_SOURCE_CHARS)]
        return written.decode("utf-8", "replace")[:MAX_SOURCE_CHARS]

    def _listed(self, node: Node) -> None:
        strings = list(_STRING.finditer(self._data, *node.byte_range))
        self.lists_names = self.lists_names or bool(strings) or node.named_child_count == 0
        for match in strings:
            self._exports[match.start()] = match[2].decode("utf-8", "replace")

    def sorted_imports(self) -> tuple[Import, ...]:
        """In the order of the file, each once."""
        placed = [
            (start, Import(source, tuple(dict.fromkeys(names)))) for start, (source, names) in self._taken.items()
        ]
        placed += [(start, Import(source)) for start, sources in self._whole.items() for source in sources]
        return tuple(dict.fromkeys(one for _, one in sorted(placed, key=lambda item: item[0])))

    def offers(self) -> list[str]:
        """Names captured as exports, in order."""
        return [name for start, name in sorted(self._exports.items()) if start not in self._skipped]


def _dotted(package: str) -> str:
    return _SEPARATOR.sub(".", "".join(package.split()))


def _more_than(plain: Iterable[tuple[int, int]], code: bytearray) -> bool:
    """Whether there is code outside of the statements that only import and export. code: used up."""
    for start, end in plain:
        blank(code, start, end)
    return bool(code.replace(b";", b" ").strip())
