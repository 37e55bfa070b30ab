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
    aliases: tuple[str, ...] = ()
    """Other names that people use; a suffix without its dot counts anyway."""


LANGUAGES: tuple[Language, ...] = (
    Language("python", (".py", ".pyi", ".pyw"), grammar="python", aliases=("python3", "cpython")),
    Language(
        "javascript", (".js", ".mjs", ".cjs", ".jsx"), grammar="javascript", aliases=("ecmascript", "node", "nodejs")
    ),
    Language("typescript", (".ts", ".mts", ".cts"), grammar="typescript"),
    Language("tsx", (".tsx",), grammar="tsx"),
    Language("go", (".go",), grammar="go", aliases=("golang",)),
    Language("rust", (".rs",), grammar="rust", aliases=("rustlang",)),
    Language("java", (".java",), grammar="java", aliases=("jvm",)),
    Language("c", (".c", ".h"), grammar="c"),
    Language(
        "cpp",
        (".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".ipp", ".cu", ".cuh"),
        grammar="cpp",
        aliases=("c++", "cplusplus", "cxx", "cuda"),
    ),
    Language("csharp", (".cs",), grammar="csharp", aliases=("c#", "c-sharp", "dotnet")),
    Language("ruby", (".rb", ".rake", ".gemspec"), ("Rakefile", "Gemfile"), grammar="ruby", aliases=("jruby",)),
    Language("php", (".php",), grammar="php"),
    Language("kotlin", (".kt", ".kts"), grammar="kotlin"),
    Language("swift", (".swift",), grammar="swift"),
    Language("scala", (".scala", ".sc"), grammar="scala"),
    Language("elixir", (".ex", ".exs"), grammar="elixir"),
    Language("haskell", (".hs",), grammar="haskell", aliases=("ghc",)),
    Language("lua", (".lua", ".rockspec"), grammar="lua"),
    Language("zig", (".zig",), grammar="zig"),
    Language("dart", (".dart",)),
    Language("r", (".r", ".R"), aliases=("rlang",)),
    Language("julia", (".jl",)),
    Language("perl", (".pl", ".pm"), aliases=("perl5",)),
    Language("bash", (".sh", ".bash", ".zsh", ".bats"), grammar="bash", aliases=("shell", "shellscript", "ksh")),
    Language("sql", (".sql",), grammar="sql", aliases=("postgresql", "postgres", "mysql", "sqlite", "plsql")),
    Language("html", (".html", ".htm", ".xhtml", ".vue", ".svelte", ".jinja", ".j2"), grammar="html"),
    Language("css", (".css",), grammar="css"),
    Language("scss", (".scss", ".sass", ".less")),
    Language("markdown", (".md", ".markdown", ".mdx"), grammar="markdown"),
    Language("restructuredtext", (".rst",), aliases=("rest",)),
    Language("toml", (".toml",), grammar="toml"),
    Language("yaml", (".yaml", ".yml"), grammar="yaml"),
    Language("json", (".json", ".json5", ".jsonc"), grammar="json"),
    Language("xml", (".xml", ".xsd", ".xsl")),
    Language("ini", (".ini", ".cfg", ".conf", ".properties")),
    Language("dockerfile", (".dockerfile",), ("Dockerfile", "Containerfile"), aliases=("docker",)),
    Language("make", (".mk",), ("Makefile", "GNUmakefile", "makefile"), aliases=("gmake",)),
    Language("cmake", (".cmake",), ("CMakeLists.txt",)),
    Language("protobuf", (".proto",), aliases=("protocol buffers",)),
    Language("text", (".txt", ".adoc", ".org", ".cmd", ".bat", ".ps1"), aliases=("plaintext", "plain")),
)

DATA_LANGUAGES = frozenset("css scss html markdown restructuredtext toml yaml json xml ini text".split())
"""Languages whose definitions are headings, keys and selectors."""

MODULE_LANGUAGES = frozenset(
    language.name for language in LANGUAGES if language.grammar and language.name not in DATA_LANGUAGES
)
"""Languages whose files are modules: all programming languages."""

_FAMILIES = (("javascript", "typescript", "tsx"), ("c", "cpp"), ("java", "kotlin", "scala"))
FAMILY_OF = {name: family[0] for family in _FAMILIES for name in family}
"""Family name of the languages that call each other by name; a language that is not here is its own family."""

BY_NAME: dict[str, Language] = {language.name: language for language in LANGUAGES}
_NAMED = {
    **{alias: language.name for language in LANGUAGES for alias in language.aliases},
    **{filename.lower(): language.name for language in LANGUAGES for filename in language.filenames},
    **{suffix.lower().removeprefix("."): language.name for language in LANGUAGES for suffix in language.suffixes},
    **{name: name for name in BY_NAME},
}
"""Language by each of its names in lower case; a name shared by two languages goes to the stronger kind, names last."""
_MAX_NAME_CHARS = 32
_BY_SUFFIX = {suffix: language.name for language in LANGUAGES for suffix in language.suffixes}
_BY_FILENAME = {filename: language.name for language in LANGUAGES for filename in language.filenames}


def language_of(path: str) -> str | None:
    """Return the language of a file by its name alone, or None when no rule knows it.

    >>> language_of("src/app.py"), language_of("Makefile"), language_of("logo.png")
    ('python', 'make', None)
    """
    name = PurePosixPath(path).name
    known = _BY_FILENAME.get(name)
    if known is not None:
        return known
    suffix = PurePosixPath(name).suffix
    return _BY_SUFFIX.get(suffix) or _BY_SUFFIX.get(suffix.lower())


def language_named(name: str) -> str | None:
    """Return the language that people call so: by its name, an alias or a suffix of its files; None when there is none.

    >>> [language_named(name) for name in ("Python", ".py", "ts", "C#", "c++", "golang", "shell", "fortran")]
    ['python', 'python', 'typescript', 'csharp', 'cpp', 'go', 'bash', None]
    """
    plain = name.strip().lower()
    return _NAMED.get(plain) or _NAMED.get(plain.removeprefix("."))


def canonical_languages(names: list[str]) -> list[str]:
    """Return each name as the tables spell it, once; names of no language stay, for the caller to check."""
    return list(dict.fromkeys(language_named(name) or name for name in names))


def nearest_languages(name: str) -> list[str]:
    """Return up to three languages with a name that is the fewest edits away from this one.

    >>> nearest_languages("pyhton"), nearest_languages("kotln"), nearest_languages("java script")
    (['python'], ['kotlin'], ['javascript'])
    """
    plain = name.strip().lower()[:_MAX_NAME_CHARS]
    distances = {known: _edits(plain, known) for known in _NAMED if len(known) > 1}
    least = min(distances.values())
    return list(dict.fromkeys(_NAMED[known] for known, distance in distances.items() if distance == least))[:3]


def _edits(left: str, right: str) -> int:
    """Count the letters to insert, remove, replace or exchange with a neighbour to turn one text into the other.

    Optimal string alignment, see Boytsov, Indexing methods for approximate dictionary searching, 2011.
    """
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, letter in enumerate(left, start=1):
        older, before, row = before, row, [at]
        for place, other in enumerate(right, start=1):
            cost = min(before[place] + 1, row[place - 1] + 1, before[place - 1] + (letter != other))
            if at > 1 and place > 1 and letter == right[place - 2] and left[at - 2] == other:
                cost = min(cost, older[place - 2] + 1)
            row.append(cost)
    return row[-1]
