"""Path classes: what role a file plays, by its path alone, so that searches can tell tests from sources.

One table, first match wins. Folder names match any folder on the way, in any case; file patterns match the whole
name, where case counts (``OrderTest.java`` is a test, ``Latest.java`` is not). What a file's bytes say, a generator's
header say, is the census's business and wins over this table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class PathRule:
    """One class and the paths it takes."""

    name: str
    folders: frozenset[str]
    """Names of folders, lower case."""
    files: re.Pattern[str]
    """What the whole file name may be."""


def _rule(name: str, folders: str, files: str) -> PathRule:
    return PathRule(name, frozenset(folders.split()), re.compile(files))


PATH_RULES: tuple[PathRule, ...] = (
    _rule(
        "vendored",
        "node_modules bower_components vendor vendored _vendor _vendored third_party third-party thirdparty 3rdparty "
        "external extern .venv venv site-packages",
        r"(jquery|bootstrap)([.-]\d[\w.]*)?(\.min)?\.(js|css)",
    ),
    _rule(
        "generated",
        "generated __generated__ gen autogen __snapshots__",
        r".*_pb2(_grpc)?\.pyi?|.*\.pb(\.gw)?\.(go|cc|h)|.*_pb\.(js|d\.ts)|.*[._]generated\.\w+|.*\.g\.(dart|cs)"
        r"|.*\.freezed\.dart|.*\.[Dd]esigner\.cs|zz_generated\..*\.go|.*_gen\.go|.*\.min\.(js|css)|.*\.bundle\.js",
    ),
    _rule("stub", "stubs typings typeshed", r".*\.pyi|.*\.d\.[mc]?ts"),
    _rule(
        "test",
        "test tests testing __tests__ __mocks__ spec specs testdata test_data fixtures e2e testsuite test-utils",
        r"test_.*\.\w+|tests?\.(py|rs|js|ts|zig|lua)|conftest\.py|.*_tests?\.(py|go|rs|c|cc|cpp|dart|exs?|rb|java|kt|lua|zig)"
        r"|.*[.-](test|spec|e2e|cy)\.[mc]?[jt]sx?|.*_spec\.(rb|lua|js|ts)|.*\.bats"
        r"|.*[A-Za-z0-9]Test(s|Case)?\.(java|kt|scala|php|cs|swift|hs)|(.*[A-Za-z0-9])?Spec\.hs",
    ),
    _rule("example", "example examples sample samples demo demos tutorial tutorials", r"(example|demo)s?\.\w+"),
    _rule(
        "docs",
        "doc docs documentation man manual wiki",
        r"(?i:.*\.(md|markdown|mdx|rst|adoc|org)|(readme|changelog|changes|news|history|contributing|authors|license"
        r"|licence|copying|notice|security|code_of_conduct)(\.txt)?)",
    ),
)

PATH_CLASSES: tuple[str, ...] = (SOURCE, *(rule.name for rule in PATH_RULES))


def path_class(path: str) -> str:
    """The class of a path, relative to the repository and '/' separated.

    >>> path_class("src/app.py"), path_class("tests/test_app.py"), path_class("api/user_pb2.pyi")
    ('source', 'test', 'generated')
    >>> path_class("examples/README.md"), path_class("README.md"), path_class("latest.py")
    ('example', 'docs', 'source')
    """
    pure = PurePosixPath(path)
    folders = {part.lower() for part in pure.parts[:-1]}
    for rule in PATH_RULES:
        if not rule.folders.isdisjoint(folders) or rule.files.fullmatch(pure.name):
            return rule.name
    return SOURCE
