"""A repository of ours with documentation, commits, messages and keys to ask about."""

from __future__ import annotations

from pathlib import Path

from tests.pipelines.repositories import commit, git

LOANS = '''"""Loans of books."""

import os

LIMIT = int(os.environ.get("LIBRARY_LOAN_LIMIT", "5"))


def extend_loan(loan, days):
    """Give the reader some more days before the book is due back."""
    if loan.reserved:
        raise ValueError("the book is reserved by another reader, loan %s" % loan.id)
    loan.due += days
    return loan


def overdue_fine(loan, today):
    # What somebody owes who brings a book back too late, in cents.
    late = max(0, today - loan.due)
    return 25 * late


class Shelf:
    """Where books stand."""

    def find_place(self, book):
        """Look for the first gap on the shelf that is wide enough."""
        for gap in self.gaps:
            if gap.width >= book.width:
                return gap
        return None
'''
READERS = """package readers

import "errors"

// Register adds a person to the register, unless the address is taken already.
func Register(name string, address string) error {
\tif taken(address) {
\t\treturn errors.New("this address belongs to another reader")
\t}
\treturn store(name, address)
}

// taken says whether somebody has registered with the address before.
func taken(address string) bool {
\treturn lookup(address) != nil
}
"""
CONFIG = '[opening]\nsaturday_hours = "10-14"\nholidays = ["easter"]\n\n[desk]\nprinter_queue = "front"\n'
TESTS = '''def test_extend_loan():
    """Check that a loan gets longer when it is extended by a week."""
    assert extend_loan(LOAN, 7).due == 14
'''
FILES: dict[str, str | bytes] = {
    "library/loans.py": LOANS,
    "readers/register.go": READERS,
    "config.toml": CONFIG,
    "tests/test_loans.py": TESTS,
    "README.md": "# Library\n\nLends books.\n",
}


def write_library(folder: Path) -> Path:
    """A repository named ``library`` below the folder."""
    home = folder / "library"
    commit(home, FILES, "Initial import of the whole library")
    later = LOANS.replace("25 * late", "30 * late")
    commit(home, {"library/loans.py": later}, "fix(loans): raise the fine for late books (#12)")
    renamed = READERS.replace("return lookup(address) != nil", "return lookup(normal(address)) != nil")
    commit(home, {"readers/register.go": renamed}, "Ignore case when comparing addresses of readers")
    commit(home, {"README.md": "# Library\n\nLends books to readers.\n"}, "Say in the readme who books are lent to")
    commit(home, {"library/loans.py": later.replace("LIMIT", "LIMIT")}, "Bump version to 1.2.3 of the library")
    sweep = {f"library/part{number}.py": f"def part_{number}():\n    return {number}\n" for number in range(8)}
    commit(home, sweep, "Add eight parts that a sweeping change touches")
    git(home, "checkout", "--quiet", "-b", "topic")
    commit(home, {"notes.md": "# Notes\n"}, "Write down some notes about books")
    git(home, "checkout", "--quiet", "main")
    git(home, "merge", "--quiet", "--no-ff", "-m", "Merge the topic with all its notes", "topic")
    return home
