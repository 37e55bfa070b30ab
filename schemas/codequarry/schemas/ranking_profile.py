"""The ranking profile: every weight and factor of the hybrid ranking, in one validated record.

A result's score is made in three steps, each of whose parts an answer's ``explain`` names:

- chunk = sum of weight * value over the channels that found it, times the factors of its file
- file = weighted evidence that the file is meant, times the same factors
- score = (file_share * file / best file + (1 - file_share) * chunk / best chunk) * repeat ** j, times the factors of
  the chunk, where j counts the better chunks of the same file

``docs/RETRIEVAL.md`` says what each is worth. A version of the bundle carries the profile it was tuned to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.strict_model import StrictModel

QueryClass = Literal[
    "identifier", "qualified_name", "path", "code", "literal", "statement", "question", "topic", "issue"
]  # fmt: skip
"""Class of a query by its form; see `serving.query.analyze_query`."""

COMMENTS_FROM = 35
"""Percent of a chunk up to which comments do not count against it."""
_FEW_WORDS, _MANY_WORDS = 6, 9
"""Words of a query, stop words left out, up to which it is short, and from which on it is long."""

Share = Field(ge=0, le=1)
Weight = Field(ge=0, le=100)
Factor = Field(ge=0, le=1)


class ClassProfile(StrictModel):
    """Weights for one class of queries."""

    lexical: float = Weight
    """Weight of BM25."""
    dense: float = Weight
    """Weight of the dense channel."""
    late: float = Field(default=0.0, ge=0, le=100)
    """Weight of late interaction; absent in profiles older than it."""
    symbol: float = Weight
    """Weight of definitions that bear a name of the query."""
    literal: float = Weight
    """Weight for chunks that hold the query's words in sequence."""
    names: float = Field(default=0.0, ge=0, le=100)
    """Weight for chunks whose definitions' names say what the query does."""
    name_field: float = Weight
    """Boost of the field of definitions' names in BM25; the body has 1."""
    path_field: float = Weight
    """Boost of the field of the path in BM25."""
    file_share: float = Share
    """Share of the score that the file decides."""
    repeat: float = Factor
    """Factor for each further chunk of one file."""
    second: float = Weight
    """Weight of a file's second best chunk relative to its best."""
    fan_in: float = Share
    """Files are multiplied by 1 + this * ln(1 + files that import them)."""
    file_share_long: float | None = Field(default=None, ge=0, le=1)
    """``file_share`` of long queries; None for the same."""
    repeat_long: float | None = Field(default=None, ge=0, le=1)
    """``repeat`` of long queries; None for the same."""
    form_on_file: float = Field(default=1.0, ge=0, le=1)
    """Power with which the form of a chunk (`ChunkProfile`) weighs on what its file brings: 0 for not at all."""
    form_on_file_long: float | None = Field(default=None, ge=0, le=1)
    """``form_on_file`` of long queries; None for the same."""

    def for_length(self, words: int) -> ClassProfile:
        """Return the weights for a query of so many words: between those of short and of long ones.

        A long question asks for one place, a short one for all files of a subject.

        Args:
            words: Distinct words of the query, stop words left out.

        Returns:
            The same weights with ``file_share``, ``repeat`` and ``form_on_file`` of this length.
        """
        part = min(max((words - _FEW_WORDS) / (_MANY_WORDS - _FEW_WORDS), 0.0), 1.0)
        pairs = {
            "file_share": self.file_share_long,
            "repeat": self.repeat_long,
            "form_on_file": self.form_on_file_long,
        }
        changed = {
            name: getattr(self, name) + (long - getattr(self, name)) * part
            for name, long in pairs.items()
            if long is not None and part
        }
        return self.model_copy(update=changed) if changed else self


class FileProfile(StrictModel):
    """Evidence for a file, apart from its chunks: weights in [0, 1]."""

    chunks: float = Weight
    """Its best chunk, and the second best by ``second`` of the class."""
    name_cover: float = Weight
    """Share of the words of its name that the query has."""
    card: float = Weight
    """Similarity of its summary (path, documentation at its head, names of its definitions)."""
    symbol: float = Weight
    """Weight for a file that holds a definition with a name of the query."""
    literal: float = Field(default=0.0, ge=0, le=100)
    """Weight for a file that holds a quoted query word for word; absent in profiles older than this rule."""


class FactorProfile(StrictModel):
    """Factors of a file's evidence and chunks."""

    test: float = Factor
    example: float = Factor
    docs: float = Factor
    generated: float = Factor
    vendored: float = Factor
    stub: float = Factor
    header: float = Factor
    """A C header beside the file that implements it."""
    size: float = Share
    """1 + this * ln(1 + lines of code)."""
    other_repository: float = Field(default=0.6, ge=0, le=1)
    """Factor for a file of another repository than the query names, when the version holds several; absent in profiles
    older than this rule."""
    no_test: float = Field(default=1.0, ge=0, le=1)
    """Factor for a file that is no test when the query asks for one; ``test`` does not count then."""


class ChunkProfile(StrictModel):
    """Factors of a chunk by its form, unless the query is only a name or a path; 1 in profiles older than them."""

    declaration: float = Field(default=1.0, ge=0, le=1)
    """An interface, trait, struct or the like, which says what there is and not how it works."""
    length: float = Field(default=0.0, ge=0, le=1)
    """(1 + this * ln(1 + lines)) / (1 + this * ln(61)), with 60 lines at most: long chunks hold more of an answer."""
    comments: float = Field(default=1.0, ge=0, le=1)
    """A chunk that is all comments; the factor falls to it from 1, at a share of `COMMENTS_FROM`."""
    head: float = Field(default=1.0, ge=0, le=1)
    """The first chunk of a file: licence, imports, constants."""


class RankingProfile(StrictModel):
    """Weights and factors of the whole ranking."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Origin of the profile: built-in, or tuned."""
    classes: dict[QueryClass, ClassProfile]
    file: FileProfile
    factors: FactorProfile
    chunk: ChunkProfile = ChunkProfile()


_OF_FILES = {
    "second": 0.7, "fan_in": 0.12, "file_share_long": 0.5, "repeat_long": 0.95, "form_on_file": 0.0,
    "form_on_file_long": 1.0,
}  # fmt: skip
_FILES_FIRST = {"lexical": 0.6, "dense": 0.4, "name_field": 0.0, "file_share": 0.8, "repeat": 0.5, **_OF_FILES}
_CHUNKS_FIRST = {"lexical": 0.6, "dense": 0.4, "name_field": 0.5, "file_share": 0.4, "repeat": 0.95}
_NAMES_FIRST = {
    "lexical": 0.9, "dense": 0.1, "late": 0.0, "name_field": 0.0, "file_share": 0.5, "repeat": 0.5, "second": 0.7,
    "fan_in": 0.12,
}  # fmt: skip


def _class(values: dict[str, float], **changes: float) -> ClassProfile:
    return ClassProfile.model_validate(
        {
            "late": 0.4,
            "symbol": 1.0,
            "literal": 0.3,
            "path_field": 0.18,
            "second": 0.0,
            "fan_in": 0.0,
            "form_on_file": 1.0,
        }
        | values
        | changes
    )


BUILT_IN = RankingProfile(
    name="built-in",
    classes={
        "identifier": _class(_NAMES_FIRST),
        "qualified_name": _class(_NAMES_FIRST),
        "path": _class(_NAMES_FIRST, path_field=2.0, file_share=0.8),
        "code": _class(_CHUNKS_FIRST, file_share=0.2, name_field=0.0, lexical=2.0),
        "literal": _class(_CHUNKS_FIRST, file_share=0.2, literal=1.0, lexical=2.0),
        "statement": _class(_CHUNKS_FIRST, names=1.0),
        "question": _class(_FILES_FIRST),
        "topic": _class(_FILES_FIRST, repeat=0.6, names=1.0),
        "issue": _class(_FILES_FIRST, repeat=0.8, repeat_long=0.98),
    },
    file=FileProfile(chunks=1.4, name_cover=0.59, card=0.21, symbol=0.5, literal=1.0),
    factors=FactorProfile(
        test=0.3, example=0.5, docs=0.4, generated=0.5, vendored=0.3, stub=0.7, header=0.5, size=0.042, no_test=0.4
    ),
    chunk=ChunkProfile(declaration=0.85, length=0.12, comments=0.45, head=0.9),
)
"""Fitted on the development set and mined queries, cross-validated over repositories; the fallback of every version."""


@dataclass(frozen=True, slots=True)
class LateVerdict:
    """Verdict on whether late interaction helps on the repositories of a version."""

    helps: bool
    """False only when it was measured, and does not."""
    said: str
    """The verdict in one line, or why there is none."""


def without_late(profile: RankingProfile) -> RankingProfile:
    """Return the same profile without late interaction."""
    classes = {kind: one.model_copy(update={"late": 0.0}) for kind, one in profile.classes.items()}
    return profile.model_copy(update={"classes": classes})


def read_profile(data: bytes) -> RankingProfile:
    """Parse a profile.

    Args:
        data: Bytes of ``ranking.json``.

    Returns:
        The profile.

    Raises:
        IntegrityError: The bytes are not a profile that this program can read.
    """
    try:
        profile = RankingProfile.model_validate_json(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise IntegrityError(
            "the ranking profile is not one this program can read",
            suggestion="build the bundle again, or leave [ranking] profile out",
        ) from error
    if missing := set(BUILT_IN.classes) - set(profile.classes):
        raise IntegrityError(
            f"the ranking profile has no {', '.join(sorted(missing))}", suggestion="run `codequarry tune ranking` again"
        )
    return profile
