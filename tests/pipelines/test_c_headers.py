"""A ``.h`` file is C unless it holds what only C++ has."""

from __future__ import annotations

from pathlib import Path

import pytest

from codequarry.pipelines.c_headers import header_language
from codequarry.pipelines.census import take_census
from codequarry.pipelines.sources import list_source
from codequarry.schemas.settings import RepositorySettings, SourcesSettings

C = [
    b"",
    b"#ifndef A_H\n#define A_H\n#include <stdio.h>\nint add(int a, int b);\n#endif\n",
    b'#ifdef __cplusplus\nextern "C" {\n#endif\nstruct point { int x; };\n#ifdef __cplusplus\n}\n#endif\n',
    b"/*\n class of its own: namespace std::string { }\n*/\n// template <class T>\nint x;\n",
    b'const char *s = "std::string";\nint class_of(int public_key);\n',
    b"typedef enum { A, B } kind;\nstruct table { void (*template)(void); };\n",
]
CPP = [
    b"class Point {\n public:\n  int x;\n};\n",
    b"namespace a::b {\nint f();\n}\n",
    b"template <class T>\nT max(T a, T b);\n",
    b"#include <vector>\n",
    b"struct P { P operator+(const P& o) const; };\n",
    b"struct P { virtual ~P(); };\n",
    b"enum class Color : int { kRed };\n",
    b"using Bytes = unsigned char*;\n",
    b"inline std::string name();\n",
]


@pytest.mark.parametrize("content", C)
def test_c(content: bytes) -> None:
    assert header_language(content) == "c"


@pytest.mark.parametrize("content", CPP)
def test_cpp(content: bytes) -> None:
    assert header_language(content) == "cpp"


@pytest.mark.parametrize("content", [b"/*" * 40_000, b'"' * 80_000, b"namespace " * 8_000, b"class a " * 8_000])
def test_hostile_headers_take_no_time(content: bytes) -> None:
    assert header_language(content) == "c"


def test_the_census_looks_into_headers_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    for name, content in {"plain.h": C[1], "modern.h": CPP[0], "old.c": CPP[0], "new.hpp": C[1]}.items():
        (folder / name).write_bytes(content)
    source = list_source(RepositorySettings(path=folder), [])
    found = {file.path: file.lang for file in take_census(source, SourcesSettings())}
    assert found == {"plain.h": "c", "modern.h": "cpp", "old.c": "c", "new.hpp": "cpp"}
