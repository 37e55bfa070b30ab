"""Generation of a fleet: the one file that says which version of which bundle is served together.

::

    fleet/<generation>.json   put once, never changed; every version it names was there before
    fleet/CURRENT             "<generation> <sha256 of its file>\\n", replaced only by who knows what it holds

Invariants
1. A repository lies in one bundle, and each bundle holds one at least.
2. All bundles have the same dense encoders, so that their scores compare.
3. ``chunks`` of a bundle is the sum of its repositories'.
4. What could not be indexed is named: a repository or bundle with `failed` goes on as it was, and `left_out` names the
   repositories that no version holds yet.
5. Whoever wrote it, fields have the forms of `manifest_fields`, and ``checksum`` is that of the rest.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from codequarry.schemas.bundle.checksummed_json import dump_with_checksum, is_vouched_for
from codequarry.schemas.bundle.manifest_fields import Count, Flag, Hex, Name, Ref, Sha256, Size, Text, Time, VersionName
from codequarry.schemas.errors import FormatError, IntegrityError
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wording import counted

FLEET_FORMAT = 1
"""Increased when a reader of the previous format could not use a generation."""
MAX_GENERATION = 999_999_999
MAX_BUNDLES = 20_000
MAX_REPOSITORIES = 50_000
MAX_GENERATION_BYTES = 64 << 20
"""Most bytes of a generation that are parsed; a repository takes about 400."""
FOLDER = "fleet/"
CURRENT_PATH = f"{FOLDER}CURRENT"
_FOLLOWING = "created"
_FILE = re.compile(r"fleet/([1-9][0-9]{0,8})\.json")
_CURRENT = re.compile(rb"([1-9][0-9]{0,8}) ([0-9a-f]{64})\n")
_SUGGESTION = "`codequarry fleet rollback NUMBER` puts an earlier generation back"

Generation = Annotated[int, Field(strict=True, ge=1, le=MAX_GENERATION)]
BundleName = Annotated[str, Field(strict=True, pattern=r"^b[0-9]{4,9}$")]
_BUNDLE = re.compile(r"b[0-9]{4,9}")


class FailedAttempt(StrictModel):
    """The last attempt to index something, which failed."""

    since: Time = Field(description="UTC time of the first failure in a row.")
    error: Text = Field(description="Message of the last failure.")


class RepositoryEntry(StrictModel):
    """A repository of a bundle."""

    commit: Hex = Field(description="Commit that was read; empty for a directory without git.")
    ref: Ref = Field(default="", description="Branch, tag or commit that was asked for; empty when none was.")
    dirty: Flag = Field(description="True when the files differ from that commit, or there is none.")
    tree_sha256: Hex = Field(description="sha256 over (path, content) of every indexed file.")
    chunks: Count = Field(description="Its chunks.")
    indexed: Time = Field(description="UTC time of the version in which these files came.")
    failed: FailedAttempt | None = Field(
        default=None, description="Why it is not newer; null when the last run read it."
    )


class BundleEntry(StrictModel):
    """A bundle of repositories, in one of its versions."""

    version: VersionName = Field(description="Name of the version in `versions/` of the store.")
    manifest_sha256: Sha256 = Field(description="sha256 of its `manifest.json`.")
    digest: Hex = Field(description="Reproducible digest of the version.")
    base: VersionName | None = Field(default=None, description="Base of a delta version; null for a complete one.")
    encoders: tuple[Hex, ...] = Field(
        min_length=1, max_length=9, description="Fingerprints of its dense encoders, the first one first."
    )
    settings_sha256: Hex = Field(description="Hash of the settings that decide the contents.")
    chunks: Count = Field(description="Chunks, those of a base that still count included.")
    size_bytes: Size = Field(description="Bytes of its files, those of a base included.")
    repositories: Annotated[dict[Name, RepositoryEntry], Field(min_length=1, max_length=MAX_REPOSITORIES)] = Field(
        description="Its repositories by name."
    )
    failed: FailedAttempt | None = Field(
        default=None, description="Why it is not newer; null when the last run built it."
    )

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if (total := sum(each.chunks for each in self.repositories.values())) != self.chunks:
            raise ValueError(f"{self.version} has {self.chunks:,} chunks, and its repositories {total:,}")
        return self


class StatisticsEntry(StrictModel):
    """An object with the document frequencies of the whole fleet."""

    sha256: Sha256 = Field(description="Digest of the object, which is its name in `objects/`.")
    size_bytes: Size = Field(description="Its size in bytes.")


class OriginEntry(StrictModel):
    """The act that made a generation."""

    act: Literal["build", "rollback"] = Field(description="build, or rollback.")
    parent: int = Field(strict=True, ge=0, le=MAX_GENERATION, description="Generation that was current; 0 for none.")
    of: int = Field(
        default=0, strict=True, ge=0, le=MAX_GENERATION,
        description="Generation whose bundles a rollback put back; 0 for a build.",
    )  # fmt: skip
    bundle: BundleName | None = Field(default=None, description="The one bundle that was put back; null for all.")


class FleetManifest(StrictModel):
    """A generation of a fleet."""

    format_version: int = Field(default=FLEET_FORMAT, description="Format of the file, not of the program.")
    generation: Generation = Field(description="Number of the generation, which is its name.")
    created: Time = Field(description="UTC time at which it was made.")
    origin: OriginEntry = Field(description="What made it, and out of what.")
    next_bundle: int = Field(
        strict=True, ge=1, le=MAX_GENERATION, description="Number of the next new bundle: no name is given twice."
    )
    bundles: Annotated[dict[BundleName, BundleEntry], Field(max_length=MAX_BUNDLES)] = Field(
        description="The bundles by name."
    )
    left_out: Annotated[dict[Name, FailedAttempt], Field(max_length=MAX_REPOSITORIES)] = Field(
        default_factory=dict, description="Repositories that no version holds, because they could not be indexed yet."
    )
    statistics: StatisticsEntry | None = Field(
        default=None, description="Lexical statistics of the fleet; null where there are none."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        places = Counter(name for entry in self.bundles.values() for name in entry.repositories)
        if twice := sorted(name for name, count in places.items() if count > 1):
            raise ValueError(f"the repository {twice[0]} lies in {places[twice[0]]} bundles, expected one")
        if both := sorted(self.left_out.keys() & places.keys()):
            raise ValueError(f"the repository {both[0]} lies in a bundle and is left out")
        if different := unlike_encoders(self.bundles):
            raise ValueError(different)
        if late := [name for name in self.bundles if bundle_number(name) >= self.next_bundle]:
            raise ValueError(f"the bundle {late[0]} has a number that is not given yet")
        return self

    @property
    def chunks(self) -> int:
        """Chunks of all bundles."""
        return sum(entry.chunks for entry in self.bundles.values())

    @property
    def bundle_of(self) -> dict[str, str]:
        """Name of the bundle by repository."""
        return {repository: name for name, entry in self.bundles.items() for repository in entry.repositories}

    def same_contents(self, other: FleetManifest) -> bool:
        """Return whether two generations differ in nothing but number, time and origin."""
        apart = {"generation", "created", "origin"}
        return self.model_dump(exclude=apart) == other.model_dump(exclude=apart)


@dataclass(frozen=True, slots=True)
class FleetCurrent:
    """The content of ``fleet/CURRENT``."""

    generation: int
    sha256: str

    def line(self) -> bytes:
        """Return the one line the file holds."""
        return f"{self.generation} {self.sha256}\n".encode()

    @classmethod
    def parse(cls, raw: bytes) -> FleetCurrent | None:
        """Parse the content of the file; None when it is anything but that one line.

        >>> FleetCurrent.parse(b"7 " + b"0" * 64), FleetCurrent.parse(b"7 " + b"0" * 64 + b"\\n").generation
        (None, 7)
        """
        match = _CURRENT.fullmatch(raw)
        return cls(int(match[1]), match[2].decode()) if match else None


def generation_path(number: int) -> str:
    """Return the path of a generation's file in the store.

    >>> generation_path(7)
    'fleet/7.json'
    """
    return f"{FOLDER}{number}.json"


def generation_number(path: str) -> int | None:
    """Return the generation of a path in the store; None when it is the path of none.

    >>> generation_number("fleet/7.json"), generation_number("fleet/CURRENT")
    (7, None)
    """
    match = _FILE.fullmatch(path)
    return int(match[1]) if match else None


def bundle_name(number: int) -> str:
    """Return the name of a bundle.

    >>> bundle_name(12)
    'b0012'
    """
    return f"b{number:04}"


def is_bundle_name(name: str) -> bool:
    """Return whether a text has the form of a bundle's name.

    >>> is_bundle_name("b0012"), is_bundle_name("versions")
    (True, False)
    """
    return _BUNDLE.fullmatch(name) is not None


def bundle_number(name: str) -> int:
    """Return the number in the name of a bundle.

    >>> bundle_number("b0012")
    12
    """
    return int(name.removeprefix("b"))


def unlike_encoders(bundles: dict[str, BundleEntry]) -> str:
    """Return a sentence about bundles with different encoders; "" when all have the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, entry in sorted(bundles.items()):
        found.setdefault(entry.encoders, []).append(name)
    if len(found) < 2:
        return ""
    said = "; ".join(
        f"{' and '.join(each[:12] for each in encoders)} in {counted(len(names), 'bundle')} such as {names[0]}"
        for encoders, names in found.items()
    )
    return f"the bundles have different encoders, so that their scores do not compare: {said}"


def generation_to_json(manifest: FleetManifest) -> bytes:
    """Return the bytes of a generation's file."""
    return dump_with_checksum(manifest.model_dump(), before=_FOLLOWING)


def generation_from_json(data: bytes) -> FleetManifest:
    """Parse the file of a generation.

    Args:
        data: Bytes of the file.

    Returns:
        The generation.

    Raises:
        FormatError: A program with another format wrote it.
        IntegrityError: It is not a generation, it was changed after it was written, or its bundles do not fit together.
    """
    if len(data) > MAX_GENERATION_BYTES:
        raise IntegrityError(
            f"the generation has {len(data):,} bytes, expected {MAX_GENERATION_BYTES:,} at most",
            suggestion=_SUGGESTION,
        )
    try:
        raw = json.loads(data)
        found = raw["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"the file of the generation is none ({type(error).__name__})", suggestion=_SUGGESTION
        ) from error
    if type(found) is not int or found < 1:
        raise IntegrityError("the file of the generation names no format version", suggestion=_SUGGESTION)
    if found != FLEET_FORMAT:
        raise FormatError(
            f"the generation has format {found}, this program reads format {FLEET_FORMAT}",
            suggestion="upgrade codequarry if a newer one wrote it; else build the fleet again",
        )
    if not is_vouched_for(data, raw.pop("checksum", None)):
        raise IntegrityError(
            "the file of the generation was changed after it was written: its checksum does not fit",
            suggestion=_SUGGESTION,
        )
    try:
        return FleetManifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise IntegrityError(
            f"the generation does not follow the format: {counted(error.error_count(), 'problem')}, first "
            f"{f'at {place}: ' if place else ''}{first['msg'].removeprefix('Value error, ')}",
            suggestion=_SUGGESTION,
        ) from error
