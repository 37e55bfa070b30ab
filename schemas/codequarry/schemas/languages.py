"""Languages by file name: one table for the census, the chunker and the ``lang`` filter.

``grammar`` names the packaged tree-sitter grammar; files of a language without one are chunked by lines. The census
looks into ``.h`` files, which may be C or C++.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Language:
    """A language as users name it in filters."""

    name: str
    suffixes: tuple[str, ...]
    filenames: tuple[str, ...] = ()
    grammar: str | None = None


LANGUAGES: tuple[Language, ...] = (
    Language("python", (".py", ".pyi", ".pyw"), grammar="python"),
    Language("javascript", (".js", ".mjs", ".cjs", ".jsx"), grammar="javascript"),
    Language("typescript", (".ts", ".mts", ".cts"), grammar="typescript"),
    Language("tsx", (".tsx",), grammar="tsx"),
    Language("go", (".go",), grammar="go"),
    Language("rust", (".rs",), grammar="rust"),
    Language("java", (".java",), grammar="java"),
    Language("c", (".c", ".h"), grammar="c"),
    Language("cpp", (".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".ipp", ".cu", ".cuh"), grammar="cpp"),
    Language("csharp", (".cs",), grammar="csharp"),
    Language("ruby", (".rb", ".rake", ".gemspec"), ("Rakefile", "Gemfile"), grammar="ruby"),
    Language("php", (".php",), grammar="php"),
    Language("kotlin", (".kt", ".kts"), grammar="kotlin"),
    Language("swift", (".swift",), grammar="swift"),
    Language("scala", (".scala", ".sc"), grammar="scala"),
    Language("elixir", (".ex", ".exs"), grammar="elixir"),
    Language("haskell", (".hs",), grammar="haskell"),
    Language("lua", (".lua", ".rockspec"), grammar="lua"),
    Language("zig", (".zig",), grammar="zig"),
    Language("dart", (".dart",)),
    Language("r", (".r", ".R")),
    Language("julia", (".jl",)),
    Language("perl", (".pl", ".pm")),
    Language("bash", (".sh", ".bash", ".zsh", ".bats"), grammar="bash"),
    Language("sql", (".sql",), grammar="sql"),
    Language("html", (".html", ".htm", ".xhtml", ".vue", ".svelte", ".jinja", ".j2"), grammar="html"),
    Language("css", (".css",), grammar="css"),
    Language("scss", (".scss", ".sass", ".less")),
    Language("markdown", (".md", ".markdown", ".mdx"), grammar="markdown"),
    Language("restructuredtext", (".rst",)),
    Language("toml", (".toml",), grammar="toml"),
    Language("yaml", (".yaml", ".yml"), grammar="yaml"),
    Language("json", (".json", ".json5", ".jsonc"), grammar="json"),
    Language("xml", (".xml", ".xsd", ".xsl")),
    Language("ini", (".ini", ".cfg", ".conf", ".properties")),
    Language("dockerfile", (".dockerfile",), ("Dockerfile", "Containerfile")),
    Language("make", (".mk",), ("Makefile", "GNUmakefile", "makefile")),
    Language("cmake", (".cmake",), ("CMakeLists.txt",)),
    Language("protobuf", (".proto",)),
    Language("text", (".txt", ".adoc", ".org", ".cmd", ".bat", ".ps1")),
)

DATA_LANGUAGES = frozenset("css scss html markdown restructuredtext toml yaml json xml ini text".split())
"""Languages whose definitions are headings, keys and selectors."""

MODULE_LANGUAGES = frozenset(
    language.name for language in LANGUAGES if language.grammar and language.name not in DATA_LANGUAGES
)
"""Languages whose files are modules: all that are programmed in."""

_FAMILIES = (("javascript", "typescript", "tsx"), ("c", "cpp"), ("java", "kotlin", "scala"))
FAMILY_OF = {name: family[0] for family in _FAMILIES for name in family}
"""One name for the languages that call each other by name; a language that is not here is its own family."""

BY_NAME: dict[str, Language] = {language.name: language for language in LANGUAGES}
_BY_SUFFIX = {suffix: language.name for language in LANGUAGES for suffix in language.suffixes}
_BY_FILENAME = {filename: language.name for language in LANGUAGES for filename in language.filenames}


def language_of(path: str) -> str | None:
    """The language of a file by its name alone, or None when no rule knows it.

    >>> language_of("src/app.py"), language_of("Makefile"), language_of("logo.png")
    ('python', 'make', None)
    """
    name = PurePosixPath(path).name
    known = _BY_FILENAME.get(name)
    if known is not None:
        return known
    suffix = PurePosixPath(name).suffix
    return _BY_SUFFIX.get(suffix) or _BY_SUFFIX.get(suffix.lower())
