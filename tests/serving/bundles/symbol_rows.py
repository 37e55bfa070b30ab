"""Rows of the tables of definitions, references and SCIP, made from the text they speak of."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from codequarry.schemas.languages import language_of
from tests.serving.bundles.bundle_factory import Piece

SCIP_BITS = {"definition": 1, "import": 2, "write": 4, "read": 8}


@dataclass
class Source:
    """One file, cut before each of its lines that start with ``cut``."""

    path: str
    text: str
    repo: str = "quarry"
    cut: str = "\0"
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def pieces(self) -> list[Piece]:
        """The chunks, which cover the file."""
        pieces: list[Piece] = []
        at = 0
        for part in re.split(f"(?m)(?=^{re.escape(self.cut)})", self.text):
            if part:
                line = self.text[:at].count("\n")
                start = len(self.text[:at].encode())
                pieces.append(Piece(self.path, part, repo=self.repo, start_line=line, start_byte=start))
                at += len(part)
        return pieces

    def span(self, needle: str, nth: int = 0) -> tuple[int, int, int, int]:
        """(first byte, end byte, line, column) of the nth place where the needle stands as a word."""
        found = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(needle)}(?!\w)", self.text)][nth]
        before = self.text[:found].encode()
        start = len(before)
        column = start - (before.rfind(b"\n") + 1)
        return start, start + len(needle.encode()), before.count(b"\n"), column

    def chunk(self, byte: int) -> int:
        """Id of the chunk that holds a byte."""
        return [piece.id for piece in self.pieces if piece.start_byte <= byte][-1]

    def define(self, qualified_name: str, kind: str, *, nth: int = 0, body: str = "", doc: str = "") -> None:
        """A syntax definition: its name is the nth such word, its body the given text, or the line."""
        name = qualified_name.rsplit(".", 1)[-1]
        start, _, line, column = self.span(name, nth)
        line_text = self.text.split("\n")[line]
        first = self.text.encode().index(body.encode()) if body else start - column
        end = first + len((body or line_text).encode())
        whole = self.text.encode()
        self.rows["ast_nodes"].append(
            {
                "qualified_name": qualified_name, "name": name, "kind": kind, "start_byte": first, "end_byte": end,
                "start_line": whole[:first].count(b"\n"), "end_line": whole[: end - 1].count(b"\n"),
                "name_start_byte": start, "name_start_line": line, "name_start_column": column,
                "signature": line_text.strip().rstrip(":"), "doc": doc,
                "parent": qualified_name.rpartition(".")[0], "chunk_id": self.chunk(first),
            }
        )  # fmt: skip

    def refer(self, name: str, role: str, *, nth: int = 0) -> None:
        """A syntax reference."""
        start, _, line, column = self.span(name, nth)
        self.rows["ast_references"].append(
            {
                "name": name, "role": role, "start_byte": start, "start_line": line, "start_column": column,
                "chunk_id": self.chunk(start),
            }
        )  # fmt: skip

    def occur(self, symbol: str, needle: str, role: str = "read", *, nth: int = 0) -> None:
        """A SCIP occurrence; a needle of "" is the start of the file."""
        start, end, line, column = self.span(needle, nth) if needle else (0, 0, 0, 0)
        bits = SCIP_BITS[role]
        flags = ("definition", "import", "write", "read", "generated", "test")
        self.rows["scip_occurrences"].append(
            {
                "symbol": symbol, "start_byte": start, "end_byte": end, "start_line": line, "start_column": column,
                "end_line": line, "end_column": column + end - start, "roles": bits,
                **{f"is_{flag}": flag == role for flag in flags},
                "enclosing_start_byte": -1, "enclosing_end_byte": -1,
            }
        )  # fmt: skip

    def describe(self, symbol: str, names: list[str], kind: str, **more: Any) -> None:
        """A SCIP symbol. names: of its descriptors, the first being the namespace."""
        self.rows["scip_symbols"].append(
            {
                "symbol": symbol, "scheme": "scip-python", "manager": "python", "package": "quarry", "version": "1",
                "descriptors": symbol.split(" ", 4)[-1], "namespace": names[0], "qualified_name": ".".join(names),
                "display_name": names[-1], "kind": kind, "signature": "", "documentation": "", "relationships": [],
                "enclosing_symbol": "", **more,
            }
        )  # fmt: skip


def pieces_and_rows(sources: list[Source]) -> tuple[list[Piece], dict[str, list[dict[str, Any]]]]:
    """What `write_bundle` takes."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for source in sorted(sources, key=lambda one: (one.repo, one.path)):
        for table, own in source.rows.items():
            rows[table] += [{"repo": source.repo, "path": source.path, **row} for row in own]
        if source.rows.get("scip_occurrences"):
            rows["scip_documents"].append(
                {"repo": source.repo, "path": source.path, "lang": language_of(source.path), "indexer": "x",
                 "position_encoding": "utf-8", "symbols": 0, "occurrences": 0, "dropped": 0}
            )  # fmt: skip
    return [piece for source in sources for piece in source.pieces], dict(rows)
