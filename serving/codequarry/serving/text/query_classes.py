"""Query classification, which decides how a query is answered."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from codequarry.schemas.ranking_profile import QueryClass
from codequarry.serving.text.analyzer import identifier_parts, query_terms, source_tokens, terms_of, words
from codequarry.serving.text.issues import Issue, read_issue
from codequarry.serving.text.stems import STOP_WORDS, stem

NAMES = frozenset({"identifier", "qualified_name"})
"""Classes of queries that are a name and nothing else."""
PROSE = frozenset({"statement", "question", "topic"})
"""Classes of queries in words, which are searched by stems."""
_TERMS_OF_NAMES, _LOOKED_UP = 30, 5
"""Names of an issue whose words are looked for, and those whose definitions are looked up."""
_NAME = r"[^\W\d]\w*"
_SEPARATOR = r"(?:\.|::|->|#|\\)"
_IDENTIFIER = re.compile(rf"[$@:.]?{_NAME}[!?]?(?:\(\))?")
_QUALIFIED = re.compile(rf"{_NAME}(?:{_SEPARATOR}{_NAME})+(?:\(\))?")
_PATH = re.compile(r"(?:[\w.@+-]+/)+[\w.@+-]*|[\w@+-]+\.[A-Za-z][A-Za-z0-9]{0,4}")
_QUOTED = re.compile(r"""(["'`]).+\1""")
_PLACEHOLDER = re.compile(r"%[sdrfiqvxu]\b|\{[\w.!:]*\}|\$\{|%\(")
_ERROR = re.compile(r"\b\w*(?:Error|Exception|Warning|Fault)\b\s*:|^(?:error|fatal|panic|warning)\s*:", re.IGNORECASE)
_CODE = re.compile(r"[;{}]|\)\s*[:{]|=>|->|==|!=|\w\(|\w\[|\w\s*=\s*\w|^\s*(?:def|class|func|fn|import|from|return)\s")
_COMMIT = re.compile(rf"(?:\[[\w -]+\]|[\w/,.-]+(?:\([^)]*\))?!?:)\s+\S|{_NAME}: \S")
_QUESTION = frozenset("how where what which who why when is are does do can should".split())
_DETERMINERS = frozenset("a an the this that these those its their each every all any".split())
_COMPOUND = re.compile(r"\w+-\w")
_WORD = re.compile(r"[A-Za-z_']+")
_TESTS = re.compile(
    r"""
    ^\W*(?:(?:is|are)\ there\s+|where(?:'s|\ is|\ are)\s+)?(?:(?:an?|any|the)\s+)?
        (?:(?:unit|integration|regression|acceptance|end-to-end|e2e)\s+)?(?:tests?|specs?)\s*
        (?::|\b(?:that|which|where|whether|for|of|about|in\ which|checking|proving|showing|covering)\b)
    |^\W*which\s+(?:tests?|specs?)\b
    |^\W*where\s+(?:is|are)\b.*\btested\b
    |\b(?:is|are)\s+(?:it|this|that|there)\s+tested\b
    |\bdo\s+(?:we|they|you|i)\s+test\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TESTS_OF = re.compile(r"\w\W+tests\W*$", re.IGNORECASE)
"""The end of a topic that asks for tests: "parser tests"."""
_DOTTED = re.compile(rf"{_NAME}(?:{_SEPARATOR}{_NAME})*")
# Verbs that documentation and commit messages begin with, counted over the first words of doc comments of public
# packages. A verb is kept when an article or pronoun follows often enough that the word is rarely a noun.
_BASE = (
    "abort accept accumulate acquire activate adapt add adjust adopt align allocate allow analyze animate "
    "annotate append apply approve ask assemble assert assign associate assume attach augment avoid await begin "
    "bring build bump calculate call cancel canonicalize capitalize catch centralize change check choose clamp "
    "classify clean clear clone close coerce collapse collect commit compare compile compose compress compute "
    "concatenate configure confirm connect consider constrain construct consume continue convert copy correct "
    "create customize deallocate decide declare decode decompose decompress decorate decrease decrement decrypt "
    "deduplicate define delete deploy describe destroy detach detect determine disable discard disconnect "
    "discover dispatch dispose divide download drain drop embed emit emulate encapsulate encode encrypt enforce "
    "enhance enqueue ensure enter enumerate erase establish estimate evaluate examine execute exit expand expect "
    "expire explain export expose extend extract fail feed fetch fill finalize find finish fix flatten flip flush "
    "follow force forget free freeze fuse generate get give grab guess handle highlight hold honor hydrate "
    "identify ignore implement import improve include increase increment indicate infer inform initialise "
    "initialize initiate insert inspect instantiate instruct integrate intercept interpret introduce invalidate "
    "invert invoke join keep kill launch leave let load locate look maintain make materialize memoize merge migrate "
    "modify move multiply mutate negate normalize notify observe obtain open optimize override overwrite parse "
    "partition pass perform persist play populate predict prepare prepend preprocess preserve prevent print "
    "process produce promote provide prune publish put quantize raise read rebase rebuild receive recognize "
    "recompute reconstruct recover recreate reduce refactor reflect register reinitialize reload remap remember "
    "remove rename render repeat replace represent require reseed reset reshape resize resolve respect restart "
    "restore restrict retrieve return rework rewrite rotate run sanitize save say send set setup show shrink "
    "simplify simulate skip solve specify split start stop store stringify submit subtract suggest summarize "
    "support suppress suspend synchronize terminate throw tokenize translate transpose trim truncate unbind "
    "unescape unlink unload unlock unpack unregister unwrap update use validate verify visualize wake warn wrap "
    "write "
).split()
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|o)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")


@dataclass(frozen=True, slots=True)
class Query:
    """Analyzed query."""

    text: str
    """The text by meaning: the query as it is, or title and sentences of an issue."""
    kind: QueryClass
    reason: str
    """Reason for the class."""
    terms: tuple[str, ...]
    """Index terms to look up, each once: whole words and identifiers, or stems for prose."""
    stems: frozenset[str]
    """Stems of all its words except stop words."""
    words: frozenset[str]
    """All its words, lower case, identifiers by their parts."""
    qualified: tuple[str, ...]
    """Qualified names in it, joined by dots: ``Index.open``."""
    plain: tuple[str, ...]
    """Identifiers in it as written: its only word, or names written unlike any word of prose."""
    asks_for_tests: bool
    """True when it asks for a test ("is there a test that …"), and not only for what has to do with tests."""


@lru_cache(maxsize=256)
def analyze_query(text: str) -> Query:
    """Analyze a query. Its class is the first that fits, from narrow to wide; an issue is read apart before.

    >>> [analyze_query(text).kind for text in ("openFile", "Index.open", "src/io.py", "how are files opened")]
    ['identifier', 'qualified_name', 'path', 'question']
    >>> [analyze_query(text).kind for text in ("'no such file'", "Returns the open files.", "session handling")]
    ['literal', 'statement', 'topic']
    >>> analyze_query("where are expired sessions removed").terms
    ('expir', 'session', 'remov')
    >>> query = analyze_query("where does Index::open call parseHeader")
    >>> query.qualified, query.plain
    (('Index.open',), ('parseHeader',))
    >>> [analyze_query(text).asks_for_tests for text in ("where is it tested that a lock is freed", "parser tests")]
    [True, True]
    >>> [analyze_query(text).asks_for_tests for text in ("test client", "how are tests collected")]
    [False, False]
    """
    if (issue := read_issue(text)) is not None:
        return _of_issue(issue)
    kind, reason = _classified(text.strip())
    tokens = list(dict.fromkeys(source_tokens(text)))
    in_words = kind in PROSE
    terms = list(dict.fromkeys(term for token in tokens for term in _prose_terms(token))) if in_words else []
    plain = [word.text.lower() for word in words(text)]
    names = [re.sub(_SEPARATOR, ".", name) for name in dict.fromkeys(_DOTTED.findall(text))]
    return Query(
        text,
        kind,
        reason,
        tuple(terms or query_terms(text)),
        _stems_of(plain),
        frozenset(plain),
        tuple(name for name in names if "." in name),
        tuple(name for name in names if "." not in name and (len(names) == 1 or _is_identifier(name))),
        _TESTS.search(text) is not None or (kind == "topic" and _TESTS_OF.search(text) is not None),
    )


def _of_issue(issue: Issue) -> Query:
    """Return the query for an issue: words of its title and names of code by word, the sentences by meaning."""
    title = [term for token in source_tokens(issue.title) for term in _prose_terms(token)]
    names = [term for name in issue.names[:_TERMS_OF_NAMES] for term in query_terms(name)]
    asked = frozenset(word.text.lower() for word in words(issue.title))
    looked_up = issue.names[:_LOOKED_UP]
    return Query(
        f"{issue.title} {issue.prose}",
        "issue",
        "has a title, sentences and names of code",
        tuple(dict.fromkeys([*title, *names])),
        _stems_of(asked),
        asked,
        tuple(name for name in looked_up if "." in name),
        tuple(name for name in looked_up if "." not in name),
        asks_for_tests=False,
    )


def _stems_of(asked: Collection[str]) -> frozenset[str]:
    """Return the stems of words without stop words; of all where there is no other word."""
    return frozenset(stem(word) for word in asked if word not in STOP_WORDS) or frozenset(map(stem, asked))


def is_compound(query: Query) -> bool:
    """Return true for one identifier of several words.

    >>> [is_compound(analyze_query(text)) for text in ("REQUEST_URI", "exclude_also", "Changes", "open file")]
    [True, True, False, False]
    """
    return query.kind == "identifier" and len(identifier_parts(query.text.strip())) > 1


def _classified(text: str) -> tuple[QueryClass, str]:
    if _IDENTIFIER.fullmatch(text):
        return "identifier", "one word"
    if _PATH.fullmatch(text) and ("/" in text or not _QUALIFIED.fullmatch(text) or _has_suffix(text)):
        return "path", "has the form of a path"
    if _QUALIFIED.fullmatch(text):
        return "qualified_name", "names joined by separators"
    if _QUOTED.fullmatch(text) or _PLACEHOLDER.search(text) or _ERROR.search(text):
        return "literal", "quoted, with placeholders, or an error message"
    found = [word.lower() for word in _WORD.findall(text)]
    if found and (found[0] in _QUESTION or text.endswith("?")):
        return "question", f"begins with {found[0]}" if found[0] in _QUESTION else "ends with a question mark"
    if _COMMIT.match(text) and len(found) > 2:
        return "statement", "has the form of a commit message"
    if found and ("\n" in text or len(_CODE.findall(text)) > 1):
        return "code", "has the punctuation of code"
    if len(found) > 2 and (verb := _predicate(text, found)):
        return "statement", f"says what is done ({verb})"
    if len(found) > 3 and text.endswith("."):
        return "statement", "is a sentence"
    return "topic", "none of the others"


def _predicate(text: str, found: list[str]) -> str:
    """Return the verb that makes a text a statement; "" when there is none.

    Verbs in a row that no article follows are names: "update and delete builders" is not a statement.

    Args:
        text: Text of the query.
        found: Its words, three or more.

    Returns:
        The verb.
    """
    first, second, third = found[:3]
    if first in ACTIONS and not _COMPOUND.match(text):
        # Only two may be a verb and its object: "add support".
        in_a_row = {first, third} <= BASE_FORMS and (second in BASE_FORMS or second in ("and", "or"))
        if not in_a_row or not _DETERMINERS.isdisjoint(found):
            return first
    return second if second in DOES else ""


def _has_suffix(text: str) -> bool:
    """Tell whether a dotted word ends with a file suffix: ``config.py``, not ``Index.open``."""
    return text.rsplit(".", 1)[-1] in _SUFFIXES


_SUFFIXES = frozenset(
    "py pyi js jsx ts tsx mjs cjs go rs java c h cc cpp hpp cs rb php kt kts swift scala sh sql html css md toml yaml "
    "yml json ex exs hs lua zig xml txt cfg ini lock gradle".split()
)


def _prose_terms(token: str) -> tuple[str, ...]:
    """Return the terms to look up for a word of prose: none for a stop word, its stem, or all of an identifier."""
    whole, *parts = terms_of(token)
    if parts:
        return (whole, *map(stem, parts))
    return () if whole in STOP_WORDS else (stem(whole),)


def _is_identifier(name: str) -> bool:
    """Tell whether a name cannot be a word of prose: parseHeader, parse_header, utf8; not open, Open or HTTP."""
    return "_" in name or len(list(words(name))) > 1


def third_person(verb: str) -> str:
    """Return the verb in the form that follows "it".

    >>> [third_person(verb) for verb in ("return", "fix", "apply")]
    ['returns', 'fixes', 'applies']
    """
    if _SIBILANT.search(verb):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if _CONSONANT_Y.search(verb) else f"{verb}s"


def past(verb: str) -> str:
    """Return the past tense of a regular verb.

    >>> [past(verb) for verb in ("add", "remove", "apply")]
    ['added', 'removed', 'applied']
    """
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if _CONSONANT_Y.search(verb) else f"{verb}ed"


BASE_FORMS = frozenset(_BASE)
"""return, fix …"""
DOES = frozenset(map(third_person, _BASE))
"""returns, fixes …"""
ACTIONS = DOES | frozenset(form for verb in _BASE for form in (verb, past(verb)))
"""All of them in their forms, lower case."""
