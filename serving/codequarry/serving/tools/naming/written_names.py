"""Places where a name stands that no definition of the index has: a function of a library, a type of the language."""

from __future__ import annotations

import re

from codequarry.schemas.languages import LANGUAGES
from codequarry.schemas.wire.grep import MATCHES_MAX, MAX_PATTERN_CHARS, CodeMatch, CodeSearchRequest
from codequarry.schemas.wire.search import SearchFilters
from codequarry.schemas.wire.symbols import ReferenceResult, ReferencesRequest
from codequarry.serving.catalog import present
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.text_search.grep import find_matches

_GRAMMARS = {language.name: language.grammar for language in LANGUAGES}
_HASH_COMMENTS = frozenset(("python", "ruby", "bash", "elixir", "php"))
_DASH_COMMENTS = frozenset(("lua", "sql", "haskell"))
_NAME_CHARS = 80
_SEPARATOR = re.compile(r"\.|::|->|#")
_IMPORT = re.compile(r"\s*(?:import|from|use|using|require|include|#\s*include|export\s.*\bfrom)\b")
_IN_NO_CODE = frozenset(("html", "css", "scss", "markdown", "rst", "json", "yaml", "toml", "xml"))


def written_uses(
    context: ToolContext, name: str, request: ReferencesRequest
) -> tuple[list[ReferenceResult], list[str]]:
    """Find the places where a name is written.

    Args:
        context: Version and deadline.
        name: The name; with a qualifier (``strings.HasPrefix``) only places that have it count, if there are any.
        request: Role and filters.

    Returns:
        At most `MATCHES_MAX` places known by name alone, those in sources first; and what to say of them.

    Raises:
        InvalidArgumentError: As `find_matches`.
        DeadlineError: As `find_matches`.
    """
    *qualifiers, word = _SEPARATOR.split(name)
    if not re.fullmatch(rf"[^\W\d]\w{{,{MAX_PATTERN_CHARS - 1}}}", word):
        return [], []
    filters = SearchFilters.model_validate(request.filters.model_dump())
    asked = CodeSearchRequest(pattern=word, mode="word", limit=MATCHES_MAX, filters=filters)
    found: list[tuple[bool, ReferenceResult]] = []
    for match in find_matches(context, asked).results:
        before, after = match.preview[: match.highlight[0]], match.preview[match.highlight[1] :]
        if _GRAMMARS.get(match.lang) is None or match.lang in _IN_NO_CODE or not is_code(before, match.lang):
            continue
        parts = _SEPARATOR.split(before)
        is_qualified = (
            bool(qualifiers)
            and len(parts) > 1
            and parts[-1] == ""
            and (re.split(r"\W", parts[-2])[-1] == qualifiers[-1])
        )
        role = _role(before, after)
        if request.role in ("any", role):
            found.append((is_qualified, _result(match, role, word)))
    is_any = any(is_qualified for is_qualified, _ in found)
    note = "not defined in this index: places in code where the word stands, without comments and strings"
    if qualifiers and found and not is_any:
        note += f"; none stands behind {present.one_line(qualifiers[-1], _NAME_CHARS)}"
    return [result for is_qualified, result in found if is_qualified or not is_any], [note] if found else []


def is_code(before: str, lang: str) -> bool:
    """Tell whether a place on a line is in code, by what stands before it: in no comment and in no string.

    >>> is_code("x = ", "python"), is_code("x = 1  # ", "python"), is_code("print('", "python")
    (True, False, False)
    >>> is_code(" * see ", "java"), is_code('a("//") + ', "java"), is_code("a(); // ", "go")
    (False, True, False)
    """
    if before.lstrip().startswith(("*", "/*", "//")):
        return False
    marker = "#" if lang in _HASH_COMMENTS else "--" if lang in _DASH_COMMENTS else "//"
    quote, at = "", 0
    while at < len(before):
        character = before[at]
        if quote:
            at += character == "\\"
            quote = "" if character == quote else quote
        elif character in "\"'`":
            quote = character
        elif before.startswith(marker, at):
            return False
        at += 1
    return not quote


def _role(before: str, after: str) -> str:
    if _IMPORT.match(before):
        return "import"
    return "call" if re.match(r"\s*(?:<[^<>()]*>)?\(", after) else "read"


def _result(match: CodeMatch, role: str, word: str) -> ReferenceResult:
    return ReferenceResult(
        title=present.line_title(match.uri, match.start_line),
        url=match.url,
        uri=match.uri,
        start_line=match.start_line,
        start_column=match.start_column,
        end_line=match.end_line,
        end_column=match.end_column,
        lang=match.lang,
        chunk_id=match.chunk_id,
        precise="heuristic",
        roles=[role],
        preview=match.preview.strip(),
        enclosing=match.qualified_name,
        refers_to=word,
        evidence="by name",
    )
