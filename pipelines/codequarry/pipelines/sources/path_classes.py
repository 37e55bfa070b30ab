"""Path classes: the role of a file by its path alone, so that searches can tell tests from sources.

One table, first match wins. Folder names match any folder on the way, in any case and with or without underscores
around them; so do words of a folder's name (``Order.Tests``, ``order-tests``, ``OrderUITests``). File patterns match
the whole name, where case counts (``OrderTest.java`` is a test, ``Latest.java`` is not). The contents of a file, such
as a generator's header, are up to the census and win over this table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

SOURCE = "source"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class PathRule:
    """One class and the paths that belong to it."""

    name: str
    folders: frozenset[str]
    """Names of folders, lower case, with any required underscores around them."""
    words: frozenset[str]
    """Words, lower case; a folder's name matches when it has one of them."""
    last: re.Pattern[str]
    """Further pattern, searched in a folder's name."""
    files: re.Pattern[str]
    """Pattern of the whole file name."""

    def takes_folder(self, folder: str) -> bool:
        """Return whether everything below a folder of this name is of the class."""
        return (
            not self.folders.isdisjoint((folder.lower(), folder.lower().strip("_")))
            or not self.words.isdisjoint(map(str.lower, _WORD.findall(folder)))
            or self.last.search(folder) is not None
        )


def _rule(name: str, folders: str, files: str, *, words: str = "", last: str = r"(?!)") -> PathRule:
    return PathRule(
        name, frozenset(folders.split()), frozenset(words.split()), re.compile(last), re.compile(files)
    )  # fmt: skip


PATH_RULES: tuple[PathRule, ...] = (
    _rule(
        "vendored",
        "node_modules bower_components vendor vendored third_party third-party thirdparty 3rdparty "
        "external extern .venv venv site-packages",
        r"(jquery|bootstrap)([.-]\d[\w.]*)?(\.min)?\.(js|css)",
    ),
    _rule(
        "generated",
        "generated gen autogen __snapshots__",
        r".*_pb2(_grpc)?\.pyi?|.*\.pb(\.gw)?\.(go|cc|h)|.*_pb\.(js|d\.ts)|.*[._]generated\.\w+|.*\.g\.(dart|cs)"
        r"|.*\.freezed\.dart|.*\.[Dd]esigner\.cs|zz_generated\..*\.go|.*_gen\.go|.*\.min\.(js|css)|.*\.bundle\.js",
    ),
    _rule("stub", "stubs typings typeshed", r".*\.pyi|.*\.d\.[mc]?ts"),
    _rule(
        "test",
        "test testing mocks spec specs testdata test_data fixtures testfixtures e2e testsuite test_suite test-utils "
        "testutil testutils testhelper testhelpers bench benches benchmark fuzz fuzzing",
        r"test_.*\.\w+|tests?\.(py|rs|js|ts|zig|lua)|conftest\.py|.*_tests?\.(py|go|rs|c|cc|cpp|dart|exs?|rb|java|kt|lua|zig)"
        r"|.*[.-](test|spec|e2e|cy)\.[mc]?[jt]sx?|.*_spec\.(rb|lua|js|ts)|.*\.bats"
        r"|.*[A-Za-z0-9]Test(s|Case)?\.(java|kt|scala|php|cs|swift|hs)|(.*[A-Za-z0-9])?Spec\.hs",
        words="tests benchmarks",
        last=r"[a-z0-9]Test$|[a-z0-9][_.][Tt]est$",  # commonTest, integration_test; spring-test may be a library
    ),
    _rule(
        "example",
        "sample demo demos tutorial tutorials",
        r"(example|demo)s?\.\w+",
        words="examples example samples",
    ),
    _rule(
        "docs",
        "doc man manual wiki",
        r"(?i:.*\.(md|markdown|mdx|rst|adoc|org)|(readme|changelog|changes|news|history|contributing|authors|license"
        r"|licence|copying|notice|security|code_of_conduct)(\.txt)?)",
        words="docs documentation",
    ),
)


def path_class(path: str) -> str:
    """Return the class of a path, relative to the repository and '/' separated.

    >>> path_class("src/app.py"), path_class("tests/test_app.py"), path_class("api/user_pb2.pyi")
    ('source', 'test', 'generated')
    >>> path_class("examples/README.md"), path_class("README.md"), path_class("latest.py")
    ('example', 'docs', 'source')
    """
    pure = PurePosixPath(path)
    of_folders = {_class_of_folder(part) for part in pure.parts[:-1]}
    for rule in PATH_RULES:
        if rule.name in of_folders or rule.files.fullmatch(pure.name):
            return rule.name
    return SOURCE


@lru_cache(maxsize=65_536)
def _class_of_folder(folder: str) -> str:
    return next((rule.name for rule in PATH_RULES if rule.takes_folder(folder)), SOURCE)
