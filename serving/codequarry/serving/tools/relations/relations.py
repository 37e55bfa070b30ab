"""Tool ``relations``: callers, callees, implementations, imports, impact, and affected tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.relations import (
    DEPTH_MAX,
    RELATIONS_MAX,
    Evidence,
    RelationResult,
    RelationsAnswer,
    RelationsRequest,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.catalog.filters import allowed_files
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.tools.budgets import fit_budget
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.relations.affected_tests import AffectedTest, affected_tests
from codequarry.serving.tools.relations.symbol_graph import CALLABLE, SymbolGraph
from codequarry.serving.tools.relations.targets import RelationTarget, find_target
from codequarry.serving.tools.relations.walk import RelationStep, in_tree_order, walk
from codequarry.serving.tools.scopes import scoped

_NAMED = 10
"""Definitions and files of the target that the answer names."""
_NAME_CHARS = 80
_DEPTHS = {"impact": 3, "affected_tests": 2}
"""Steps that are followed where none are asked for; 1 for other kinds."""
_OF_SYMBOLS = ("callers", "callees", "implementations")


def relations(context: ToolContext, request: RelationsRequest) -> RelationsAnswer:
    """Answer a question about relations.

    Args:
        context: Version and deadline.
        request: Kind, target, depth and filters.

    Returns:
        What relates to the target.

    Raises:
        InvalidArgumentError: The target or the filters cannot be used.
        NotFoundError: There is no such file.
        DeadlineError: No time is left.
    """
    request = scoped(request)
    bundle = context.bundle
    limit, limits = clamp_argument("limit", request.limit, 1, RELATIONS_MAX)
    depth, notes = clamp_argument("depth", request.depth or _DEPTHS.get(request.kind, 1), 1, DEPTH_MAX)
    limits += notes
    files = allowed_files(request.filters, bundle.directory)
    target = find_target(bundle, request)
    if request.kind in _OF_SYMBOLS and not target.rows and target.files:
        raise InvalidArgumentError(
            f"target: {request.kind} are of definitions, and this file has none",
            suggestion="give a name or path:line; for files ask for imports or impact",
        )
    context.deadline.check()
    answering = _Relations(context, target, depth, files)
    results = getattr(answering, request.kind)()
    shown, notes = fit_budget(results[:limit], request.max_tokens, lambda result, _: result)
    limits += [*target.notes, *answering.notes(), *notes]
    if len(results) > limit:
        limits.append(f"the first {limit} of {len(results)}; raise limit, or narrow with filters")
    return RelationsAnswer(
        targets=_names_of(context, target), results=shown, total=len(results), limits=limits, bundle=bundle.info
    )


def _names_of(context: ToolContext, target: RelationTarget) -> list[str]:
    """Return what the target means, in words."""
    directory = context.bundle.directory
    if target.is_file:
        return [present.printable(f"{directory.repos[file]}/{directory.paths[file]}") for file in target.files[:_NAMED]]
    return [
        f"{present.one_line(row.kind)} {present.one_line(row.qualified_name, _NAME_CHARS)} "
        f"{present.printable(f'{directory.repos[row.file]}/{directory.paths[row.file]}')}:{row.start_line + 1}"
        for row in target.rows[:_NAMED]
    ]


@dataclass
class _Relations:
    """One question. A method for each kind returns all results, in order."""

    context: ToolContext
    target: RelationTarget
    depth: int
    files: np.ndarray | None
    """(files,) bool: only results in these; None for all."""

    def __post_init__(self) -> None:
        self.bundle = self.context.bundle
        asked = {*self.target.files, *(row.file for row in self.target.rows)}
        self.graph = SymbolGraph(self.bundle, np.array(sorted(asked), np.int64), self.context.deadline)

    def notes(self) -> list[str]:
        """Return what limits the answer."""
        found = (
            ["only a part of the uses was looked at: name a definition that is used less"] if self.graph.is_cut else []
        )
        rows = self.target.rows
        if not self.target.is_file and len({(row.file, row.qualified_name) for row in rows}) > 1:
            found.append(f"{len(rows)} definitions are meant; give a qualified name or path:line to choose")
        return found

    def callers(self) -> list[RelationResult]:
        """Return what calls functions, or uses types and variables."""
        return self._tree(walk(self.target.rows, self._calling, self.depth, self.context.deadline))

    def callees(self) -> list[RelationResult]:
        """Return the functions and types that definitions use."""
        return self._tree(walk(self.target.rows, self._called, self.depth, self.context.deadline))

    def implementations(self) -> list[RelationResult]:
        """Return what extends types and overrides members."""
        return self._tree(walk(self.target.rows, self._extending, self.depth, self.context.deadline))

    def imports(self) -> list[RelationResult]:
        """Return the files that import the target's files, and those that they import."""
        files = self.target.files or list(dict.fromkeys(row.file for row in self.target.rows))
        inside = set(files)
        found: list[RelationResult] = []
        for relation, neighbours in (
            ("imports", self.bundle.imports.importing), ("is imported", self.bundle.imports.imported_by),
        ):  # fmt: skip
            seen: set[int] = set()
            for file in files:
                for other in neighbours(file):
                    if other not in inside and other not in seen and self._allows(other):
                        seen.add(other)
                        found.append(self._file_result(relation, other, self._path(file), 1, "resolved"))
        return found

    def impact(self) -> list[RelationResult]:
        """Return what a change of the target may break: users of users, what extends it, and importing files."""
        rows = self.target.rows
        found = self._tree(walk(rows, self._affected, self.depth, self.context.deadline)) if rows else []
        named = {result.uri for result in found}
        if self.target.is_file:
            for file in self.target.files:
                for other in self.bundle.imports.importing(file):
                    if self._allows(other) and (uri := self._uri(other)) not in named:
                        named.add(uri)
                        found.append(self._file_result("imports", other, self._path(file), 1, "resolved"))
        return found

    def affected_tests(self) -> list[RelationResult]:
        """Return the tests that a change of the target may break."""
        tests = affected_tests(self.bundle, self.target, self._affected, self.depth, self.context.deadline)
        return [self._test_result(test) for test in tests if self._allows(test.file)]

    def _calling(self, rows: Sequence[SymbolRow]) -> list[RelationStep]:
        return self._users(rows, calls_alone=True)

    def _affected(self, rows: Sequence[SymbolRow]) -> list[RelationStep]:
        return [*self._users(rows, calls_alone=False), *self._extending(rows)]

    def _users(self, rows: Sequence[SymbolRow], *, calls_alone: bool) -> list[RelationStep]:
        uses = self.graph.uses_of(rows, calls_alone=calls_alone)
        around = self.graph.rows_of(use.enclosing for use in uses if use.enclosing >= 0)
        steps: list[RelationStep] = []
        for use in uses:
            row = around.get(use.enclosing)
            inside = row if row is not None and row.kind != "module" else None
            if inside is not None and inside.symbol_id == use.of.symbol_id and use.of.kind not in CALLABLE:
                continue  # a type that names itself
            relation = "calls" if use.is_call else "uses"
            steps.append(RelationStep(relation, use.of, inside, use.file, use.line, use.evidence))
        return steps

    def _called(self, rows: Sequence[SymbolRow]) -> list[RelationStep]:
        return [
            RelationStep(
                "is called" if other.kind in CALLABLE else "is used", row, other, other.file, other.start_line, evidence
            )
            for row in rows
            for other, _, evidence in self.graph.used_by(row)
        ]

    def _extending(self, rows: Sequence[SymbolRow]) -> list[RelationStep]:
        extending = self.graph.extending(rows)
        return [
            RelationStep(
                "overrides" if row.kind in CALLABLE else "extends", row, other, other.file, other.start_line, evidence
            )
            for row in rows
            for other, evidence in extending[row.symbol_id]
        ]

    def _tree(self, steps: Sequence[RelationStep]) -> list[RelationResult]:
        """Return the steps as results, each behind the one it was reached from."""
        allowed = [step for step in steps if self._allows(step.file)]
        # What lies outside of the filters is left out, and what was reached through it is not: it stays in order.
        reached = {(step.row.symbol_id) for step in allowed if step.row is not None and not step.again}
        tree = [step for step in allowed if step.depth == 1 or step.of.symbol_id in reached]
        rest = [step for step in allowed if step.depth > 1 and step.of.symbol_id not in reached]
        return [self._result(step) for step in (*in_tree_order(tree, RELATIONS_MAX), *rest)]

    def _result(self, step: RelationStep) -> RelationResult:
        directory = self.bundle.directory
        of_row = step.relation in ("is called", "is used", "extends", "overrides")
        if of_row and step.row is not None and step.row.signature:
            reason = step.row.signature
        else:
            line = self.bundle.catalog.line(directory.repos[step.file], directory.paths[step.file], step.line)
            reason = line.decode("utf-8", "replace").strip()
        return RelationResult(
            relation=step.relation,
            of=present.one_line(step.of.qualified_name, _NAME_CHARS),
            name="" if step.row is None else present.one_line(step.row.qualified_name, _NAME_CHARS),
            kind="file" if step.row is None else present.one_line(step.row.kind),
            uri=self._uri(step.file),
            start_line=step.line,
            depth=step.depth,
            evidence=step.evidence,
            reason=present.one_line(reason),
            again=step.again,
        )

    def _file_result(self, relation: str, file: int, of: str, depth: int, evidence: Evidence) -> RelationResult:
        return RelationResult(
            relation=relation, of=of, name="", kind="file", uri=self._uri(file), start_line=0, depth=depth,
            evidence=evidence, reason="",
        )  # fmt: skip

    def _test_result(self, test: AffectedTest) -> RelationResult:
        if test.step is not None:
            result = self._result(test.step)
            return result.model_copy(update={"relation": "tests", "again": False})
        path = PurePosixPath(self._path(test.file)).name
        return RelationResult(
            relation="tests", of="", name="", kind="file", uri=self._uri(test.file), start_line=0, depth=1,
            evidence=test.evidence, reason=present.one_line(f"{path} {test.reason}"),
        )  # fmt: skip

    def _allows(self, file: int) -> bool:
        return self.files is None or bool(self.files[file])

    def _path(self, file: int) -> str:
        return self.bundle.directory.paths[file]

    def _uri(self, file: int) -> str:
        return f"{self.bundle.directory.repos[file]}/{self._path(file)}"
