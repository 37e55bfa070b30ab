"""The rules that a version has to follow, each with the part of the version that it is about.

A rule is what people read and what history is kept of; a check is one result of it. Most rules make one check, some
make one for each table, dense index or language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.gates.sql_checks import CATALOG_DIFFERS, NOTHING_OF, OF_EACH_LEG
from codequarry.schemas.gates.suites import OF_TABLES, embeddings_suite, of_leg

_MANIFEST, _IDMAP, _FIRST_LEG = "manifest", "faiss_idmap", DENSE_LEGS[0]
_PART_OF_SUITE = {
    "modules": "modules",
    "scip_symbols": "symbols_mat",
    "scip_occurrences": "occurrences_mat",
    "faiss_idmap": _IDMAP,
}
"""Parts that the suites of tables are about; other tables are the manifest's, as they are no index and no view."""
_PART_OF_TITLE = {
    "rows of v_faiss_join with a missing side": "v_faiss_join",
    "source files without a module": "modules",
    "repositories whose fan-in and fan-out differ in sum": "modules",
    "definitions without a row in symbols_mat": "symbols_mat",
    "names that do not lie in their chunk": "occurrences_mat",
    "places in the chunk of another file": "occurrences_mat",
    "rows of the id map that the catalog holds otherwise": _IDMAP,
}
"""The same of checks that are SQL."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule."""

    name: str
    """Identifier: letters, digits and underscores."""
    part: str
    """Part of the version."""
    title: str
    """Thing that must not be there, or quantity that is measured."""
    pattern: re.Pattern[str]
    """Names of its checks."""


def identifier(title: str) -> str:
    """Return the title of a rule as an identifier.

    >>> identifier("recall@10 of faiss against exact search")
    'recall_10_of_faiss_against_exact_search'
    """
    return re.sub(r"\W+", "_", title.lower()).strip("_")


def rules_of(legs: Sequence[str], *, late_interaction: bool, learned_sparse: bool) -> tuple[Rule, ...]:
    """Return the rules of the versions that some settings make.

    Args:
        legs: Channels of the dense indexes.
        late_interaction: Whether versions have an index for late interaction.
        learned_sparse: Whether versions have an index of learned sparse terms.

    Returns:
        The rules; every check of such a version belongs to one of them.
    """
    rules = [
        *(
            _rule(_PART_OF_SUITE.get(suite.table, _MANIFEST), each.name)
            for suite in OF_TABLES
            for each in suite.expectations
        ),
        *(_rule(_PART_OF_TITLE.get(title, _MANIFEST), title) for title in (*NOTHING_OF, *CATALOG_DIFFERS)),
        *(_rule(_MANIFEST, title) for title in _OF_VERSIONS),
        _rule(_MANIFEST, "rows of tables", r"rows of (table \w+|chunks|chunks_mat|faiss_idmap)"),
        _rule(_MANIFEST, "answers against CURRENT", r"(?!time).* of .* against CURRENT"),
        _rule(_MANIFEST, "times against CURRENT", r"time .* against CURRENT"),
        _rule("occurrences_mat", "SCIP occurrences lost or doubled"),
        _rule(_IDMAP, "id map of the catalog that is not the version's"),
        _rule(_FIRST_LEG, "ids of FAISS that are not those of the chunks"),
        _rule("bm25", "ids of BM25 that are not those of the chunks"),
        *(rule for leg in legs for rule in _rules_of_leg(leg)),
    ]
    rules += (
        _of_optional(
            "warp", "WARP", "(postings and tokens of late interaction|.*late-interaction index|.*token encoder).*"
        )
        if late_interaction
        else [_rule(_MANIFEST, "files of late interaction that the manifest knows nothing of")]
    )
    rules += (
        _of_optional("splade", "SPLADE", ".*(learned sparse (terms|index)|sparse encoder).*")
        if learned_sparse
        else [_rule(_MANIFEST, "files of learned sparse terms without an entry in the manifest")]
    )
    return tuple(rules)


def _rules_of_leg(leg: str) -> list[Rule]:
    titles = [each.name for each in embeddings_suite(leg, 0).expectations]
    titles += [f"{title}{of_leg(leg)}" for title in (*OF_EACH_LEG, *_OF_LEGS)]
    return [*(_rule(leg, title) for title in titles), _rule(leg, f"recall@10 of {leg} against exact search")]


def _of_optional(part: str, name: str, pattern: str) -> list[Rule]:
    return [
        _rule(part, f"ids of {name} that are not those of the chunks"),
        _rule(part, f"index {part} is whole", pattern),
    ]


def _rule(part: str, title: str, pattern: str = "") -> Rule:
    return Rule(identifier(title), part, title, re.compile(pattern or re.escape(title)))


_OF_LEGS = (
    "ids in FAISS that differ from its id map",
    "vectors that are not where requests look for them",
    "dimension of the FAISS index",
    "query encoder",
    "fingerprint of the query encoder",
    "dimension of the query encoder",
    "files of the query encoder that are not the described ones",
)
_OF_VERSIONS = (
    "files match the manifest",
    "shards whose texts are found otherwise than in their table",
    "index of files",
    "open.sql that is not this program's",
    "chunks",
    "share of files indexed",
    "size budget",
    "scanner of secrets",
    "secrets in texts",
    "secrets found",
    "indexed files that went",
    "indexed files that came",
    "files of a language that went",
    "share of a language",
    "share of a path class",
    "share of files skipped for a reason",
    "chunks per file",
    "token vectors per chunk",
    "bytes per chunk",
    "secrets that came",
    "encoders that changed",
    "channels that the reader cannot open",
    "files changed since answers were compared",
    "verdict page",
)
