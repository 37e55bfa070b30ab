"""Settings of the repositories: their places, the files that are read, and how their texts are cut and understood."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, field_serializer, field_validator, model_validator

from codequarry.schemas.git_urls import check_ref, parse_git_url
from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.trust.privileges import Reach


class PathsSettings(StrictModel):
    """Folders in which the pipeline keeps what can be rebuilt. Relative paths start at the settings file's folder."""

    store: Annotated[Path, Reach.PLACE] = Field(
        default=Path(".codequarry/store"), description="Content-addressed store: vectors and exported encoders."
    )
    work: Annotated[Path, Reach.PLACE] = Field(
        default=Path(".codequarry/work"), description="Stage outputs of each repository between runs."
    )


class RepositorySettings(StrictModel):
    """One repository to index: a folder here, or a URL that git fetches."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: Annotated[Path | None, Reach.PLACE] = Field(default=None, description="A git work tree or a plain directory.")
    url: Annotated[str, Reach.ADDRESS] = Field(
        default="",
        description="A git repository elsewhere, instead of `path`: `https://`, `ssh://`, `git://`, `file:///` or "
        "`user@host:path`. Credentials in it are used, never stored or shown.",
        repr=False,
    )
    ref: Annotated[str, Reach.WORDS] = Field(
        default="",
        description="Branch, tag or commit to read; HEAD of the URL, or the work tree of the path, when empty.",
    )
    name: Annotated[str, Reach.WORDS] = Field(
        default="",
        description="Name used in ids, URLs and filters; that of the folder or of the URL's last part when empty.",
        pattern=r"^$|^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    )
    scip: Annotated[tuple[Path, ...], Reach.PLACE] = Field(
        default=(),
        description="SCIP indexes made elsewhere, protobuf or JSON; no indexer runs for the languages they cover.",
    )

    @field_validator("url")
    @classmethod
    def _known_url(cls, value: str) -> str:
        if value:
            parse_git_url(value)
        return value

    @field_validator("ref")
    @classmethod
    def _known_ref(cls, value: str) -> str:
        return check_ref(value) if value else value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (not self.url):
            raise ValueError("expected either path or url")
        return self

    @field_serializer("url")
    def _public(self, value: str) -> str:
        return parse_git_url(value).public if value else value

    @property
    def place(self) -> str:
        """Path or URL as people may see it, with the ref behind it when one is given."""
        where = parse_git_url(self.url).public if self.url else str(self.path)
        return f"{where}#{self.ref}" if self.ref else where


class SourcesSettings(StrictModel):
    """Repositories that are indexed, and which of their files."""

    repositories: tuple[RepositorySettings, ...] = Field(default=(), description="The repositories the bundle holds.")
    max_file_bytes: int = Field(
        default=1_000_000, ge=1, le=1_000_000_000, description="Larger files are skipped with reason `too_large`."
    )
    exclude: Annotated[tuple[str, ...], Reach.WORDS] = Field(
        default=(), description="Extra gitignore-style patterns to leave out."
    )


class LimitsSettings(StrictModel):
    """Limits on the listing of one repository; a repository beyond a limit stops the run and is named."""

    entries: int = Field(default=2_000_000, ge=1, le=1_000_000_000, description="Files, links and submodules.")
    listing_bytes: int = Field(
        default=1_000_000_000, ge=1_000, le=1_000_000_000_000, description="Bytes that git may write about them."
    )
    path_bytes: int = Field(default=4_096, ge=16, le=65_536, description="Bytes of one path.")
    depth: int = Field(default=256, ge=1, le=4_096, description="Names in one path.")
    listing_timeout_s: float = Field(default=120.0, gt=0, le=86_400, description="Time for one listing.")


class SecretsSettings(StrictModel):
    """Keys, tokens and passwords in the files: found before anything is made of them, and replaced by asterisks."""

    scan: bool = Field(
        default=True, description="Look for secrets. Without it they are indexed and served as they are."
    )
    allow: Annotated[tuple[str, ...], Reach.WORDS] = Field(
        default=(), description="gitignore-style patterns of files whose secrets are none, as of test fixtures."
    )


class ChunkingSettings(StrictModel):
    """Size budgets of the structure-aware chunker, in non-whitespace bytes."""

    max_chars: int = Field(default=1600, ge=100, le=20_000, description="A definition up to this size stays whole.")
    merge_chars: int = Field(
        default=600, ge=1, le=20_000, description="Neighbours merge while their sum is at most this."
    )

    @model_validator(mode="after")
    def _merged_fits(self) -> Self:
        if self.merge_chars > self.max_chars:
            raise ValueError(f"merge_chars {self.merge_chars} must not exceed max_chars {self.max_chars}")
        return self


class ScipSettings(StrictModel):
    """Precise definitions and references by SCIP indexers, where they are installed."""

    enabled: bool = Field(default=True, description="Run SCIP indexers that are found.")
    run_builds: Annotated[bool, Reach.CODE] = Field(
        default=False,
        description="Also run those that run the build of a repository, and so its code, with your rights but without"
        " network: rust-analyzer, scip-java, scip-dotnet.",
    )
    timeout_s: float = Field(default=900.0, gt=0, description="Longest run of one indexer over one repository.")
    memory_mb: int = Field(default=4096, ge=256, description="Memory an indexer may take, in MiB.")
