"""Inputs and outputs of ``list_files``: a tree of folders, or the files that a glob matches."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from codequarry.schemas.strict_model import StrictModel
from codequarry.schemas.wire.search import BundleInfo, LanguageNames, ScopeId

FILES_DEFAULT, FILES_MAX = 200, 1000
TREE_DEPTH_DEFAULT, TREE_DEPTH_MAX = 2, 16

PathClass = Literal["source", "stub", "example", "test", "docs", "generated", "vendored", "any"]


class ListFilesRequest(StrictModel):
    """A list as the engine makes it; ``limit`` and ``depth`` are clamped, which ``limits`` says."""

    pattern: str = Field(default="", description="A folder, or a glob like '**/*.sql'; everything when left out.")
    lang: LanguageNames = Field(default=[], max_length=64, description="Only these languages, e.g. ['python', 'go'].")
    path_class: PathClass = Field(
        default="any",
        validation_alias=AliasChoices("class", "path_class"),
        description="Only files of this class.",
    )
    depth: int = Field(
        default=TREE_DEPTH_DEFAULT,
        description=f"Levels of folders that are opened, 1 to {TREE_DEPTH_MAX}; deeper files are counted.",
    )
    limit: int = Field(
        default=FILES_DEFAULT,
        description=f"How many files and folders, 1 to {FILES_MAX}; out of range is clamped.",
    )
    scope_id: ScopeId = ""


class FileItem(StrictModel):
    """One indexed file."""

    uri: str = Field(description="repository/path.")
    lang: str = Field(description="Language of the file; may be empty.")
    path_class: str = Field(description="source, stub, example, test, docs, generated or vendored.")


class FoldedFolder(StrictModel):
    """A folder that was not opened."""

    uri: str = Field(description="repository/path: give it as `pattern` to open it.")
    files: int = Field(description="Indexed files in it, at any depth.")


class ListFilesAnswer(StrictModel):
    """Files, and the folders that were not opened."""

    files: list[FileItem] = Field(description="By repository and path.")
    folders: list[FoldedFolder] = Field(description="By repository and path; empty for a glob.")
    total: int = Field(description="How many files match, those of folded folders included.")
    limits: list[str] = Field(description="What was clamped or left out; empty when nothing was.")
    bundle: BundleInfo = Field(description="The index version the answer speaks for.")
