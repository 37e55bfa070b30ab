"""The benchmark in CoIR's format: no document gives its question away, and the command line climbs the ladder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import coir
from codequarry.pipelines.evaluation.qrels import is_collection, read_collection
from tools.train_encoder.sources import read_sources

PYTHON = b'''"""Loans of a library."""


class Loans:
    """All loans."""

    # Books that are late cost money.
    def extend(self, book, days):
        """Extend the loan of a book by some days.

        Raises when somebody waits for it.
        """
        if book in self.waiting:
            raise ValueError(f"somebody waits for {book}")

        def moved(due):
            """Return the day on which it is due after that."""
            return due + days

        self.due[book] = moved(self.due[book])

    def total(self, fines, rate, limit):
        """:param fines: what is owed by each reader of the library"""
        return min(sum(fine * rate for fine in fines), limit, self.most, self.whole)

    def short(self):
        """Return nothing at all to anybody."""
        return None
'''
SCRIPT = b"""/**
 * Finds the shelf on which a book stands by its signature.
 * @param {string} signature
 */
export function shelfOf(signature, shelves, fallback) {
  for (const shelf of shelves) {
    if (shelf.first <= signature && signature <= shelf.last) return shelf;
  }
  return fallback;
}
"""


def functions() -> list[coir.Function]:
    made = [*coir.functions_of("pypi/loans", "loans.py", PYTHON), *coir.functions_of("npm/shelf", "shelf.js", SCRIPT)]
    return [*made, *(one._replace(path=f"copy/{one.path}") for one in made)]


def test_documents_are_functions_without_documentation() -> None:
    extend, total, shelf = functions()[:3]
    assert extend.code == (
        "def extend(self, book, days):\n"
        "    if book in self.waiting:\n"
        '        raise ValueError(f"somebody waits for {book}")\n'
        "    def moved(due):\n"
        "        return due + days\n"
        "    self.due[book] = moved(self.due[book])\n"
    )
    assert extend.question == "Extend the loan of a book by some days."
    assert total.code.startswith("def total(self, fines, rate, limit):\n    return min(")
    assert (shelf.question, shelf.language) == (
        "Finds the shelf on which a book stands by its signature.",
        "javascript",
    )
    assert "signature.\n" not in shelf.code and "/**" not in shelf.code


def test_the_collection_is_read_as_any_other(tmp_path: Path) -> None:
    corpus, questions = coir.write_collection(tmp_path / "coir", functions())
    # Equal functions are one document; a documentation that is a field asks nothing.
    assert (corpus, questions) == (3, 2)
    assert is_collection(tmp_path / "coir")
    found = read_collection(tmp_path / "coir", tmp_path / "documents")
    assert found.documents == 3
    asked = {question.query: question.targets[0].path for question in found.questions}
    for query, path in asked.items():
        text = (tmp_path / "documents" / path).read_text(encoding="utf-8")
        assert query.rstrip(".") not in text
    assert {Path(path).suffix for path in asked.values()} == {".py", ".js"}
    assert len(coir.write_collection(tmp_path / "one", functions(), 1)) == 2
    assert len((tmp_path / "one" / "queries.jsonl").read_text().splitlines()) == 1


def test_no_package_was_trained_on_or_measured_with() -> None:
    listed = read_sources()
    known = {source.name.lower() for source in listed.sources} | listed.never
    packages = coir.packages()
    assert 10 <= len(packages) <= 15
    assert known.isdisjoint(source.name.lower() for source in packages)
    assert {source.license for source in packages} <= {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause"}


@pytest.mark.slow
def test_the_command_line_climbs_the_ladder_and_asks_each_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, questions = coir.write_collection(tmp_path / "coir", functions())
    coir.measure(tmp_path, corpus, questions)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    ladder = {row[0].strip("| "): row for row in rows if row[0].strip("| ") in "ABCDE"}
    assert list(ladder) == list("ABCDE")
    for rung in "ABCD":
        assert all(0 < float(value) <= 1 for value in ladder[rung][2:6]), ladder[rung]
    assert "no language model is configured" in ladder["E"][-1]
    modes = [(row[0].strip("| "), row[1]) for row in rows if row[0].strip("| ") in coir.MODES]
    assert modes == [(mode, run) for mode in coir.MODES for run in ("faiss+warp", "hybrid")]
    summary = json.loads((tmp_path / "report" / "summary.json").read_text(encoding="utf-8"))
    assert summary["bundles"]["evaluated"]["channels"].count("warp") == 1
