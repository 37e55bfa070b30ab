"""Which files have to be modules, in versions of this program and of those before it."""

from __future__ import annotations

import duckdb
import pytest

from codequarry.serving.version.file_checks import NOTHING_OF

CHECK = "source files without a module"


@pytest.mark.parametrize(
    ("files", "modules", "found"),
    [
        ([("a.py", "python", True), ("b.lua", "lua", False)], [("a.py", "python")], 0),
        ([("a.py", "python", True), ("b.lua", "lua", True)], [("a.py", "python")], 1),
        ([("a.lua", "lua", True), ("b.lua", "lua", False)], [("a.lua", "lua")], 1),
        ([("a.ini", "ini", False)], [], 0),
    ],
    ids=["before Lua had a grammar", "parsed", "not parsed", "data"],
)
def test_a_version_from_before_a_language_had_a_grammar_is_sound(
    files: list[tuple[str, str, bool]], modules: list[tuple[str, str]], found: int
) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE files (repo TEXT, path TEXT, lang TEXT, indexed BOOLEAN, parsed BOOLEAN)")
        connection.execute("CREATE TABLE modules (repo TEXT, path TEXT, lang TEXT)")
        for path, lang, parsed in files:
            connection.execute("INSERT INTO files VALUES ('r', ?, ?, true, ?)", [path, lang, parsed])
        for path, lang in modules:
            connection.execute("INSERT INTO modules VALUES ('r', ?, ?)", [path, lang])
        assert len(connection.execute(NOTHING_OF[CHECK]).fetchall()) == found
