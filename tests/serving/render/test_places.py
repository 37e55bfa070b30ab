"""Definitions, references and matches as text."""

from __future__ import annotations

from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.render.places import definitions_text, matches_text, references_text
from codequarry.serving.tools.budgets import lean_references


def test_a_definition_is_its_place_kind_signature_and_first_words(symbol_engine) -> None:
    answer = symbol_engine.definitions(DefinitionRequest(symbol="Index.open"))
    lines = definitions_text(answer).split("\n")
    (one,) = answer.results
    assert lines[0] == f"{one.uri}:{one.body_start_line + 1}-{one.body_end_line + 1}  {one.kind} {one.qualified_name}"
    assert lines[1] == f"  {one.signature}"
    assert "no such definition" in definitions_text(symbol_engine.definitions(DefinitionRequest(symbol="zzz")))


def test_references_are_grouped_by_file_resolved_ones_first(symbol_engine) -> None:
    answer = symbol_engine.references(ReferencesRequest(symbol="Index.open", role="call"))
    lines = references_text(answer).split("\n")
    for result in answer.results:
        assert any(line.startswith(f"  {result.start_line + 1}: {result.preview.strip()}") for line in lines)
    files = [line for line in lines if not line.startswith(" ") and "/" in line and "@" not in line]
    assert len(files) == len({(one.uri, one.precise) for one in answer.results})
    by_name = [line.endswith("(by name)") for line in files]
    assert by_name == sorted(by_name)
    assert "4 of 4: 3 resolved, 1 by name" in lines[-1]


def test_definitions_are_named_only_where_the_name_may_mean_several(symbol_engine) -> None:
    one = ReferencesRequest(symbol="Index.open")
    assert lean_references(one, symbol_engine.references(one)).definitions == []
    several = ReferencesRequest(symbol="open")
    answer = symbol_engine.references(several)
    assert answer.definitions_total > 1
    assert lean_references(several, answer) == answer
    assert f"may mean {answer.definitions_total} definitions" in references_text(answer)


def test_matches_are_numbered_lines_with_their_context_each_once(lexical_engine) -> None:
    request = CodeSearchRequest(pattern="open", context_lines=1)
    answer = lexical_engine.search_code(request)
    text = matches_text(answer)
    assert f"{answer.total} match" in text
    for match in answer.results:
        assert f"\n  {match.start_line + 1}: {match.preview}" in f"\n{text}"
    per_file = text.split("\n")
    numbered = [line for line in per_file if line.startswith("  ")]
    assert len(numbered) >= len({(one.uri, one.start_line) for one in answer.results})
    assert "no match" in matches_text(lexical_engine.search_code(CodeSearchRequest(pattern="zzz")))
