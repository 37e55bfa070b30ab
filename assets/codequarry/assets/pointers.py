"""Pointer files in the work folder, which tell a step what version the step before staged or verified.

A step may run in another process than the one before, so that no value can be handed over. ``codequarry index`` runs
the same functions in one process, hands their values, and writes no pointer.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.errors import PublishError

if TYPE_CHECKING:  # they bring DuckDB and FAISS, which the definitions do without
    from codequarry.pipelines.bundle.stage import Staged
    from codequarry.pipelines.gates.verify import Verified

_Value = TypeVar("_Value", "Staged", "Verified")


def write_pointer(work: Path, value: Staged | Verified) -> None:
    """Write what a step returned for the steps that follow.

    Args:
        work: The work folder.
        value: The version as the pipeline function returned it.

    Raises:
        UnavailableError: The file cannot be written.
    """
    with replacing(_file(work, type(value))) as temporary:
        temporary.write_bytes(TypeAdapter(type(value)).dump_json(value))


def read_pointer(work: Path, kind: type[_Value]) -> _Value:
    """Read what the step before wrote.

    Args:
        work: The work folder.
        kind: `Staged` or `Verified`.

    Returns:
        The value.

    Raises:
        PublishError: That step has not run, or its version is gone.
    """
    stage = kind.__name__.lower()
    with suppress(FileNotFoundError, ValidationError):
        value = TypeAdapter(kind).validate_json(_file(work, kind).read_bytes())
        if value.path.is_dir():
            return value
    raise PublishError(f"nothing is {stage}", suggestion=f"run the {stage} stage first")


def remove_pointers(work: Path, *kinds: type[Staged] | type[Verified]) -> None:
    """Remove pointers whose version is published, or is verified again."""
    for kind in kinds:
        _file(work, kind).unlink(missing_ok=True)


def _file(work: Path, kind: type[Staged] | type[Verified]) -> Path:
    return work / f"{kind.__name__.lower()}.json"
