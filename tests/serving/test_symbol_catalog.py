"""The symbol tables and the look-ups against a slow reading of the same rows, over random files."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.engine.engine import Engine
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.symbol_rows import Source, pieces_and_rows

NAMES = ("open", "Open", "close", "größe", "x1", "run")
SYNTAX_BITS = {"call": 256, "type": 512, "import": 2, "other": 0}


def random_sources(seed: int) -> list[Source]:
    """Files of nested definitions and uses, some indexed by SCIP; one symbol is defined in two files."""
    pick = random.Random(seed)
    sources: list[Source] = []
    symbols = [f"s . p . `m{n}`/{name}{end}" for n, name in enumerate(NAMES) for end in ("#", "().", ".")]
    for number in range(6):
        lines = [" ".join(pick.choices(NAMES, k=pick.randint(0, 4))) for _ in range(pick.randint(3, 30))]
        source = Source(f"d{number % 3}/f{number}.py", "\n".join(lines) + "\nend\n", cut=pick.choice(NAMES))
        indexed = number % 2 == 0
        bodies: list[tuple[int, int]] = []
        ends = [at for at, character in enumerate(source.text) if character == "\n"]
        for name in NAMES:
            for nth in range(source.text.split().count(name)):
                start = source.span(name, nth)[0]
                kind = pick.choice(("definition", "reference", "none", "none"))
                if kind == "definition":
                    first = len(source.text.encode()[:start].decode())
                    end = max(pick.choice(ends), first + len(name))
                    body = source.text[first:end]
                    # As those of a syntax tree, bodies are nested or apart.
                    crosses = any(first < b < end < d or b < first < d < end for b, d in bodies)
                    if source.text.index(body) == first and not crosses:
                        bodies.append((first, end))
                        source.define(f"a.{name}", pick.choice(("class", "method")), nth=nth, body=body)
                elif kind == "reference":
                    source.refer(name, pick.choice(list(SYNTAX_BITS)), nth=nth)
                if indexed and pick.random() < 0.7:
                    symbol = pick.choice([*symbols, "local 1", "local 2", "s . p . `m`/f().(x)", "s . o . os/path."])
                    role = pick.choice(("definition", "read", "write")) if "os/path" not in symbol else "read"
                    source.occur(symbol, name, role, nth=nth)
        sources.append(source)
    for symbol in symbols:
        base = pick.choice(symbols)
        relations = [f"implementation {base}"] if pick.random() < 0.3 and base > symbol else []
        sources[0].describe(symbol, [*symbol.split("`")[1::2], "n"], "term", relationships=relations)
    return sources


@pytest.fixture(params=range(6))
def world(request: pytest.FixtureRequest, tmp_path: Path):
    """(sources, rows, engine)."""
    sources = random_sources(request.param)
    pieces, rows = pieces_and_rows(sources)
    write_bundle(tmp_path, pieces, rows=rows)
    engine = Engine.open(tmp_path, ServingSettings())
    yield sources, defaultdict(list, rows), engine
    engine.close()


def table(engine: Engine, sql: str) -> list[dict[str, Any]]:
    with engine.bundle.catalog.reading() as cursor:
        found = cursor.execute(sql)
        columns = [column[0] for column in found.description]
        return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def listed(symbol: str) -> bool:
    """Whether a definition of the symbol has a row of its own."""
    return not symbol.startswith("local ") and not symbol.endswith(")")


def test_every_definition_is_one_row(world) -> None:
    _, rows, engine = world
    syntax = {(row["path"], row["name_start_byte"]): row for row in rows["ast_nodes"]}
    scip = defaultdict(list)
    for row in rows["scip_occurrences"]:
        if row["is_definition"] and listed(row["symbol"]):
            scip[row["path"], row["start_byte"]].append(row["symbol"])
    expected = Counter(
        (path, byte, symbol, syntax[path, byte]["qualified_name"] if (path, byte) in syntax else "n")
        for path, byte in {*syntax, *scip}
        for symbol in scip.get((path, byte), [""])
    )
    found = table(engine, "SELECT * FROM symbols_mat ORDER BY symbol_id")
    assert Counter((row["path"], row["start_byte"], row["symbol"], row["qualified_name"]) for row in found) == expected
    assert [row["symbol_id"] for row in found] == list(range(len(found)))
    assert [row["name_key"] for row in found] == sorted(row["name_key"] for row in found)
    for row in found:
        assert row["precise"] == (row["symbol"] != "")
        assert row["name_id"] == min(other["symbol_id"] for other in found if other["name"] == row["name"])
        same = [other["symbol_id"] for other in found if other["symbol"] == row["symbol"] != ""]
        assert row["target_id"] == min(same, default=row["symbol_id"])


def test_every_place_has_its_meaning_chunk_and_surroundings(world) -> None:
    sources, rows, engine = world
    by_path = {source.path: source for source in sources}
    symbols = {row["symbol_id"]: row for row in table(engine, "SELECT * FROM symbols_mat")}
    roles = {(row["path"], row["start_byte"]): SYNTAX_BITS[row["role"]] for row in rows["ast_references"]}
    covered = {(row["path"], row["start_byte"]) for row in rows["scip_occurrences"]}
    starts: dict[tuple[str, int, int], int] = {}
    expected: Counter[tuple[object, ...]] = Counter()
    for row in rows["scip_occurrences"]:
        place = row["path"], row["start_line"], row["start_column"]
        starts[place] = row["start_byte"]
        local = row["symbol"].startswith("local ")
        meaning = (row["path"], row["symbol"]) if local else row["symbol"]
        expected[*place, True, row["roles"] | roles.get((row["path"], row["start_byte"]), 0), meaning] += 1
    for row in rows["ast_references"]:
        place = row["path"], row["start_line"], row["start_column"]
        starts[place] = row["start_byte"]
        if (row["path"], row["start_byte"]) not in covered and any(
            one["name"] == row["name"] for one in symbols.values()
        ):
            expected[*place, False, SYNTAX_BITS[row["role"]], row["name"]] += 1
    for row in symbols.values():
        starts[row["path"], row["start_line"], row["start_column"]] = row["start_byte"]
        if not row["precise"]:
            expected[row["path"], row["start_line"], row["start_column"], False, 1, row["symbol_id"]] += 1
    outside = {row["target_id"]: row["symbol"] for row in table(engine, "SELECT * FROM outside_mat")}
    meanings: dict[object, object] = {}
    found: Counter[tuple[object, ...]] = Counter()
    sql = "SELECT place.*, held.path, held.chunk_id FROM occurrences_mat AS place JOIN files_mat USING (file)"
    for row in table(engine, f"{sql} JOIN chunks_mat AS held ON held.rowid = chunk"):
        target, path = row["target_id"], row["path"]
        place = path, row["start_line"], row["start_column"]
        byte = starts[place]
        if not row["precise"]:
            meaning: object = target if row["roles"] & 1 else symbols[target]["name"]
            assert row["roles"] & 1 or symbols[target]["name_id"] == target
        elif target < 0:
            written = {
                one["symbol"] for one in rows["scip_occurrences"] if (one["path"], one["start_byte"]) == (path, byte)
            }
            meaning = meanings.setdefault((path, target), (path, *written) if len(written) == 1 else None)
        else:
            meaning = symbols[target]["symbol"] if target in symbols else outside.get(target, "s . p . `m`/f().(x)")
        found[*place, row["precise"], row["roles"], meaning] += 1
        assert row["chunk_id"] == by_path[path].chunk(byte)
        around = [
            (-node["start_byte"], node["end_byte"], node["qualified_name"])
            for node in rows["ast_nodes"]
            if node["path"] == path and node["start_byte"] <= byte < node["end_byte"]
        ]
        enclosing = symbols[row["enclosing"]]["qualified_name"] if row["enclosing"] >= 0 else ""
        assert enclosing == (min(around)[2] if around else "")
    assert found == expected
    assert table(engine, "SELECT count(*) AS n FROM places_mat")[0]["n"] == found.total()


def test_look_ups_find_what_a_scan_finds(world) -> None:
    _, rows, engine = world
    implements = {
        (row["symbol"], relation.split(" ", 1)[1]) for row in rows["scip_symbols"] for relation in row["relationships"]
        if not row["symbol"].endswith("#")
    }  # fmt: skip

    def closure(symbol: str, edges: set[tuple[str, str]]) -> set[str]:
        reached = {symbol}
        while more := {other for one, other in edges if one in reached} - reached:
            reached |= more
        return reached

    occurrences = rows["scip_occurrences"]
    held = {row["symbol"] for row in occurrences}
    edges = {(one, other) for one, other in implements if {one, other} <= held}
    for symbol in sorted(one for one in held if listed(one)):
        defined = {
            (row["path"], row["start_byte"]) for row in occurrences if row["symbol"] == symbol and row["is_definition"]
        }
        answer = engine.definitions(DefinitionRequest(symbol=symbol, limit=100))
        assert answer.total == len(defined)
        meant = closure(symbol, edges) | closure(symbol, {(other, one) for one, other in edges})
        expected = Counter(
            (f"quarry/{row['path']}", row["start_line"], row["start_column"])
            for row in occurrences if row["symbol"] in meant and not row["is_definition"]
        )  # fmt: skip
        uses = engine.references(ReferencesRequest(symbol=symbol, limit=500, precision="precise"))
        assert Counter((one.uri, one.start_line, one.start_column) for one in uses.results) == expected
        assert uses.totals.precise == expected.total()
    for row in occurrences:
        if row["symbol"].startswith("local "):
            same = [
                one for one in occurrences
                if one["path"] == row["path"] and one["symbol"] == row["symbol"]
            ]  # fmt: skip
            place = {"uri": f"quarry/{row['path']}", "line": row["start_line"], "column": row["start_column"]}
            uses = engine.references(ReferencesRequest(**place, limit=500))
            assert uses.totals.precise == sum(not one["is_definition"] for one in same)
            assert engine.definitions(DefinitionRequest(**place)).total == sum(one["is_definition"] for one in same)
