"""Facts about chunks that only explanations read: syntax leaves, and the header comment or docstring of the file.

Arrays in ``facts/`` of a version, memory-mapped by the reader. Explanations of versions without them tell less.

================ ================================================================================
kinds.txt        (k,) kinds of leaves of syntax trees, sorted, a line each
leaves.npy       (l,) of kind, count: of each chunk the four most frequent, the first by name among equals
leaf_starts.npy  (n + 1,): those of row i of ``chunks_mat`` are from ``leaf_starts[i]`` to ``leaf_starts[i + 1]``
said.npy         (b,) uint8: what is said at the top of each file, in UTF-8
said_starts.npy  (f + 1,): that of row i of ``files_mat`` is from ``said_starts[i]`` to ``said_starts[i + 1]``
================ ================================================================================

Kinds and counts are uint16 where all are below 65,535, else int32; starts int32 or int64, as in ``rows/``.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# DuckDB's stubs leave the types of columns open.

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.chunk_arrays import divides
from codequarry.serving.files.arrays import NUMBERS, PLACES, map_array, narrow

if TYPE_CHECKING:
    import duckdb

MAX_LEAVES = 4
MAX_SAID = 120
"""Characters."""
_LEAF = ("kind", "count")
_ARRAYS = ("leaves", "leaf_starts", "said", "said_starts")
_KINDS = "SELECT DISTINCT kind FROM cst_nodes ORDER BY kind"
_LEAVES = f"""
WITH numbered AS (SELECT kind, (row_number() OVER (ORDER BY kind) - 1)::INTEGER AS number FROM ({_KINDS}))
SELECT chunks_mat.rowid AS row, number, count
FROM cst_nodes JOIN numbered USING (kind) JOIN chunks_mat USING (chunk_id)
QUALIFY row_number() OVER (PARTITION BY chunk_id ORDER BY count DESC, number) <= {MAX_LEAVES}
ORDER BY row, count DESC, number
"""
_SAID = "SELECT coalesce(doc, '') AS doc FROM files_mat LEFT JOIN modules USING (repo, path) ORDER BY file"


@dataclass(frozen=True)
class ChunkFacts:
    """Arrays described in the module docstring."""

    kinds: tuple[str, ...]
    leaves: np.ndarray
    leaf_starts: np.ndarray
    said: np.ndarray
    said_starts: np.ndarray

    @classmethod
    def build(cls, connection: duckdb.DuckDBPyConnection) -> Self:
        """Build the facts of an open catalog whose variable ``bundle`` is set."""
        chunks: int = connection.execute("SELECT count(*) FROM chunks_mat").fetchall()[0][0]
        found: dict[str, Any] = connection.execute(_LEAVES).fetchnumpy()
        kinds: list[str] = [kind for (kind,) in connection.execute(_KINDS).fetchall()]
        used, numbers = np.unique(found["number"], return_inverse=True)
        kind, count = narrow(numbers, NUMBERS), narrow(found["count"], NUMBERS)
        leaves = np.zeros(len(numbers), [("kind", kind.dtype), ("count", count.dtype)])
        leaves["kind"], leaves["count"] = kind, count
        said = [doc[:MAX_SAID].encode() for (doc,) in connection.execute(_SAID).fetchall()]
        return cls(
            tuple(kinds[number] for number in used.tolist()),
            leaves,
            narrow(np.searchsorted(found["row"], np.arange(chunks + 1)), PLACES),
            np.frombuffer(b"".join(said), np.uint8),
            narrow(np.cumsum([0, *map(len, said)]), PLACES),
        )

    def write(self, folder: Path) -> None:
        """Write the files; equal catalogs give equal bytes."""
        folder.mkdir()
        (folder / "kinds.txt").write_text("".join(f"{kind}\n" for kind in self.kinds), encoding="utf-8")
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name), allow_pickle=False)

    @classmethod
    def open(cls, folder: Path, chunks: int, files: int) -> Self:
        """Map a version's facts.

        Args:
            folder: Folder ``facts/`` of the version.
            chunks: Number of the version's chunks.
            files: Number of the version's files.

        Returns:
            The mapped facts.

        Raises:
            IntegrityError: The facts are damaged or belong to another version.
        """
        try:
            kinds = tuple((folder / "kinds.txt").read_text(encoding="utf-8").split("\n")[:-1])
            found = cls(kinds, *(map_array(folder / f"{name}.npy") for name in _ARRAYS))
            whole = found._is_of(chunks, files)
        except (OSError, ValueError, IntegrityError) as error:
            raise _damaged(folder) from error
        if not whole:
            raise _damaged(folder)
        return found

    def leaves_of(self, row: int) -> dict[str, int]:
        """Return the most frequent syntax leaves of a chunk, the most frequent first.

        Args:
            row: Row of ``chunks_mat``.

        Returns:
            Counts by kind.
        """
        start, end = self.leaf_starts[row : row + 2].tolist()
        return {self.kinds[kind]: count for kind, count in self.leaves[start:end].tolist()}

    def said_of(self, file: int) -> str:
        """Return the text at the top of a file, at most 120 characters.

        Args:
            file: Row of ``files_mat``.

        Returns:
            The text; "" when there is none.
        """
        start, end = self.said_starts[file : file + 2].tolist()
        return self.said[start:end].tobytes().decode("utf-8", "replace")

    def _is_of(self, chunks: int, files: int) -> bool:
        starts = (self.leaf_starts, self.said_starts)
        if self.leaves.dtype.names != _LEAF or not all(self.leaves.dtype[name] in NUMBERS for name in _LEAF):
            return False
        if self.said.dtype != np.uint8 or not all(one.dtype in PLACES for one in starts):
            return False
        if any(one.ndim != 1 for one in (self.leaves, self.said, *starts)):
            return False
        kinds = self.leaves["kind"]
        return (
            divides(self.leaf_starts, len(self.leaves), chunks)
            and divides(self.said_starts, len(self.said), files)
            and (not len(kinds) or bool(0 <= kinds.min() <= kinds.max() < len(self.kinds)))
        )


def _damaged(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"{folder.name}/ of {folder.parent.name} is damaged", suggestion="do not serve this version; publish again"
    )
