"""Inputs and outputs of ``describe_index``: what is indexed, so that *no match* and *not indexed* differ."""

from __future__ import annotations

from pydantic import Field

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.search import BundleInfo

MAX_REPOSITORIES = 50


class DescribeRequest(StrictModel):
    """What to describe."""

    repos: list[str] = Field(
        default=[],
        max_length=256,
        description=f"Only these repositories; the first {MAX_REPOSITORIES} by name when left out.",
    )


class LanguageCount(StrictModel):
    """How much is indexed of a language."""

    files: int = Field(description="Indexed files.")
    chunks: int = Field(description="Their chunks.")


class IndexerCoverage(StrictModel):
    """What a SCIP indexer contributed: definitions and references are precise where it ran."""

    indexer: str = Field(description="Name and version.")
    status: str = Field(description="ok, partial, missing, failed or timeout.")
    reason: str = Field(description="Why it is not ok; empty when it is.")
    coverage: float = Field(description="Share of its languages' indexed files that it describes, 0 to 1.")


class RepositoryDescription(StrictModel):
    """One repository as it was indexed."""

    name: str = Field(description="Name in uris and filters.")
    commit: str = Field(description="Commit; empty without git, '+dirty' behind it when files differed from it.")
    url: str = Field(description="Where it was fetched from; empty for a local folder.")
    ref: str = Field(description="Branch, tag or commit that was asked for; empty when none was.")
    files: int = Field(description="Indexed files.")
    chunks: int = Field(description="Their chunks.")
    coverage: float = Field(description="Share of all its files that is indexed, 0 to 1.")
    skipped: dict[str, int] = Field(description="Files left out, by reason.")
    secrets_looked_for: bool = Field(description="True when keys, tokens and passwords in the files were looked for.")
    secrets: dict[str, int] = Field(description="Those found, by kind; asterisks stand in their place everywhere.")
    classes: dict[str, int] = Field(description="Indexed files by class: source, test, docs, example, …")
    languages: dict[str, LanguageCount] = Field(description="Indexed files and chunks by language.")
    scip: list[IndexerCoverage] = Field(description="SCIP indexers; empty when none applies.")


class ChannelDescription(StrictModel):
    """A search channel."""

    open: bool = Field(description="True when searches use it.")
    source: str = Field(description="The index behind it, e.g. faiss_flat; empty when it is not open.")
    reason: str = Field(description="Why it is not open; empty when it is.")


class EncoderDescription(StrictModel):
    """The model that made the vectors."""

    name: str = Field(description="Name of the model.")
    dim: int = Field(description="Length of a vector.")
    fingerprint: str = Field(description="Hash of everything that changes its vectors.")


class RefDescription(StrictModel):
    """Another branch of a repository, for `filters.ref`."""

    repo: str = Field(description="Name of the repository.")
    ref: str = Field(description="The branch.")
    version: str = Field(description="Its index version.")
    commit: str = Field(description="The indexed commit; '' when it cannot be read.")


class DescribeAnswer(StrictModel):
    """What is indexed."""

    repositories: list[RepositoryDescription] = Field(description="By name.")
    repositories_total: int = Field(description="How many there are in the index.")
    languages: dict[str, LanguageCount] = Field(description="Over all repositories of the index, by language.")
    files: int = Field(description="Indexed files, over all repositories.")
    skipped_files: int = Field(description="Files left out, over all repositories.")
    chunks: int = Field(description="Chunks, over all repositories.")
    age_s: int = Field(description="Seconds since the index was built.")
    channels: dict[str, ChannelDescription] = Field(description="Search channels by name.")
    models: dict[str, EncoderDescription] = Field(description="Models by the channel whose vectors they made.")
    refs: list[RefDescription] = Field(default=[], description="Other branches that `filters.ref` takes.")
    limits: list[str] = Field(description="What was left out; empty when nothing was.")
    bundle: BundleInfo = Field(description="The index version described.")
