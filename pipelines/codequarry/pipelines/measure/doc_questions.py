"""Questions of kind A: a sentence of documentation asks for the function that it documents.

The documentation of the functions asked for is blanked in the text that is indexed, so that only the code can be found.
It is replaced by as many blanks as it had bytes, so that every other place stays the same.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from codequarry.pipelines.adapt.pairs import NO_DOCUMENTATION, word_count
from codequarry.pipelines.measure.questions import CandidateKey, Question, Target, spread
from codequarry.pipelines.measure.source_tables import Mined, Node
from codequarry.pipelines.sources.snapshot import read_contents
from codequarry.pipelines.syntax.definitions.definitions import outline
from codequarry.pipelines.syntax.definitions.nodes import Surroundings
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.languages import BY_NAME

KIND = "A doc"
MIN_WORDS = 4
_MAX_CHARS = 300
_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")
_MARKUP = re.compile(r"</?\w+[^>]*>|\{@\w+\s+([^}]*)\}|[`*]+")
_NO_INK = re.compile(rb"[^\r\n]")
Blanks = Mapping[tuple[str, str], Sequence[tuple[int, int]]]
"""Byte ranges to be blanked, by repository and path."""


def sentence_of(doc: str, name: str) -> str:
    """Return the first sentence of a documentation as a question; "" when it does not say what the function does.

    Markup is removed, and so is the function's own name at the beginning, as Go has it. The sentence is what somebody
    would ask who knows what a function does, but not its name.

    >>> sentence_of("Retry calls f until it succeeds. It waits in between.", "Retry")
    'calls f until it succeeds.'
    >>> sentence_of("Opens it.", "open"), sentence_of("TODO: say what this is good for", "f")
    ('', '')
    """
    if NO_DOCUMENTATION.search(doc[:200]):
        return ""
    paragraph = " ".join(_MARKUP.sub(r"\1", _PARAGRAPH.split(doc.strip())[0]).split())
    sentence = _SENTENCE.split(paragraph)[0].strip()
    first, _, rest = sentence.partition(" ")
    if first.rstrip("():,") == name:
        sentence = rest.strip()
    if len(sentence) > _MAX_CHARS:
        sentence = sentence[:_MAX_CHARS].rsplit(" ", 1)[0]
    return sentence if word_count(sentence) >= MIN_WORDS else ""


def doc_questions(repositories: Sequence[Mined], count: int, seed: int) -> tuple[list[Question], Blanks]:
    """Return at most ``count`` questions, and the documentation to be blanked for them.

    Sentences that several definitions share are left out, and those whose place in the text is unknown.
    """
    alike: Counter[str] = Counter()
    found: list[tuple[CandidateKey, tuple[Mined, Node, str]]] = []
    for repository in repositories:
        for node in repository.nodes:
            if node.doc and (sentence := sentence_of(node.doc, node.name)):
                alike[sentence] += 1
                if node.is_function and repository.is_source(node.path):
                    place = CandidateKey(repository.name, node.path, f"{node.qualified_name}:{node.start_byte}")
                    found.append((place, (repository, node, sentence)))
    questions: list[Question] = []
    blanks: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    drawn = spread(((place, one) for place, one in found if alike[one[2]] == 1), seed)
    while len(questions) < count and (batch := list(islice(drawn, count))):
        ranges = _doc_ranges(batch)
        for repository, node, sentence in batch:
            written = ranges.get((repository.name, node.path, node.start_byte, node.qualified_name), [])
            if written and len(questions) < count:
                blanks[repository.name, node.path] += written
                target = Target(node.path, repository.name, node.start_line, node.end_line)
                questions.append(Question(f"A{len(questions) + 1:04d}", KIND, sentence, (target,)))
    return questions, blanks


def blanked(data: bytes, ranges: Sequence[tuple[int, int]]) -> bytes:
    """Return the bytes with blanks in some ranges; line breaks stay.

    >>> blanked(b"// Opens\\n// it.\\nf()", [(0, 15)])
    b'        \\n      \\nf()'
    """
    text = bytearray(data)
    for start, end in ranges:
        text[start:end] = _NO_INK.sub(b" ", data[start:end])
    return bytes(text)


def _doc_ranges(
    definitions: Sequence[tuple[Mined, Node, str]],
) -> dict[tuple[str, str, int, str], list[tuple[int, int]]]:
    """Return the ranges of documentation by repository, path, first byte and qualified name of the definition.

    The files were parsed by the chunk stage, in a process of its own, within the budget that holds here too.
    """
    wanted: dict[str, tuple[Mined, set[str]]] = {}
    for repository, node, _ in definitions:
        wanted.setdefault(repository.name, (repository, set()))[1].add(node.path)
    found: dict[tuple[str, str, int, str], list[tuple[int, int]]] = {}
    for name, (repository, paths) in wanted.items():
        for path, lang, data in read_contents(repository.work, paths):
            for start, qualified_name, ranges in _of_file(data, lang):
                found[name, path, start, qualified_name] = ranges
    return found


def _of_file(data: bytes, lang: str) -> Iterator[tuple[int, str, list[tuple[int, int]]]]:
    name = BY_NAME[lang].grammar
    assert name is not None  # it has definitions
    loaded = grammar(name)
    tree = parse(loaded, data)
    if tree is not None:
        made = outline(loaded, tree, data)
        surroundings = Surroundings(made.leading, data)
        for entry in made.definitions:
            yield entry.start_byte, entry.qualified_name, surroundings.doc_ranges(entry)
