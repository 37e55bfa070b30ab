"""What explanations tell of chunks beyond what a search reads: leaves of their syntax, and what their file is about.

Arrays in ``facts/`` of a version, mapped by the reader; versions without them tell less.

================ ================================================================================
kinds.txt        (k,) kinds of leaves of syntax trees, sorted, a line each
leaves.npy       (l,) of kind, count (int32): of each chunk the four most frequent, the first by name among equals
leaf_starts.npy  (n + 1,) int64: those of row i of ``chunks_mat`` are from ``leaf_starts[i]`` to ``leaf_starts[i + 1]``
said.npy         (b,) uint8: what is said at the top of each file, in UTF-8
said_starts.npy  (f + 1,) int64: that of row i of ``files_mat`` is from ``said_starts[i]`` to ``said_starts[i + 1]``
================ ================================================================================
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# DuckDB's stubs leave the types of columns open.

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.row_index import divides

if TYPE_CHECKING:
    import duckdb

MAX_LEAVES = 4
MAX_SAID = 120
"""Characters."""
_LEAF = np.dtype([("kind", np.int32), ("count", np.int32)])
_ARRAYS = ("leaves", "leaf_starts", "said", "said_starts")
_LEAVES = f"""
SELECT chunks_mat.rowid AS row, cst_nodes.kind AS kind, count FROM cst_nodes JOIN chunks_mat USING (chunk_id)
QUALIFY row_number() OVER (PARTITION BY chunk_id ORDER BY count DESC, cst_nodes.kind) <= {MAX_LEAVES}
ORDER BY row, count DESC, cst_nodes.kind
"""
_SAID = "SELECT coalesce(doc, '') AS doc FROM files_mat LEFT JOIN modules USING (repo, path) ORDER BY file"


@dataclass(frozen=True)
class ChunkFacts:
    """The arrays above."""

    kinds: tuple[str, ...]
    leaves: np.ndarray
    leaf_starts: np.ndarray
    said: np.ndarray
    said_starts: np.ndarray

    @classmethod
    def build(cls, connection: duckdb.DuckDBPyConnection) -> Self:
        """Of an open catalog whose variable ``bundle`` is set."""
        chunks: int = connection.execute("SELECT count(*) FROM chunks_mat").fetchall()[0][0]
        found: dict[str, Any] = connection.execute(_LEAVES).fetchnumpy()
        kinds, numbers = np.unique(found["kind"].astype(str), return_inverse=True)
        leaves = np.zeros(len(numbers), _LEAF)
        leaves["kind"], leaves["count"] = numbers, found["count"]
        said = [doc[:MAX_SAID].encode() for (doc,) in connection.execute(_SAID).fetchall()]
        return cls(
            tuple(kinds.tolist()),
            leaves,
            np.searchsorted(found["row"], np.arange(chunks + 1)).astype(np.int64),
            np.frombuffer(b"".join(said), np.uint8),
            np.cumsum([0, *map(len, said)], dtype=np.int64),
        )

    def write(self, folder: Path) -> None:
        """Write the files; equal catalogs give equal bytes."""
        folder.mkdir()
        (folder / "kinds.txt").write_text("".join(f"{kind}\n" for kind in self.kinds), encoding="utf-8")
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name), allow_pickle=False)

    @classmethod
    def open(cls, folder: Path, chunks: int, files: int) -> Self:
        """Map a version's facts. chunks, files: that it has. Raises IntegrityError: they are damaged, or not of it."""
        try:
            kinds = tuple((folder / "kinds.txt").read_text(encoding="utf-8").split("\n")[:-1])
            arrays = (np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS)
            found = cls(kinds, *(array.view(np.ndarray) for array in arrays))
            whole = found._is_of(chunks, files)
        except (OSError, ValueError) as error:
            raise _damaged(folder) from error
        if not whole:
            raise _damaged(folder)
        return found

    def leaves_of(self, row: int) -> dict[str, int]:
        """Most frequent leaves of a chunk's syntax by kind, the most frequent first. row: in ``chunks_mat``."""
        start, end = self.leaf_starts[row : row + 2].tolist()
        return {self.kinds[kind]: count for kind, count in self.leaves[start:end].tolist()}

    def said_of(self, file: int) -> str:
        """What is said at the top of a file, at most 120 characters. file: row in ``files_mat``."""
        start, end = self.said_starts[file : file + 2].tolist()
        return self.said[start:end].tobytes().decode("utf-8", "replace")

    def _is_of(self, chunks: int, files: int) -> bool:
        kinds = self.leaves["kind"]
        return (
            (self.leaves.dtype, self.said.dtype) == (_LEAF, np.uint8)
            and divides(self.leaf_starts, len(self.leaves), chunks)
            and divides(self.said_starts, len(self.said), files)
            and (not len(kinds) or bool(0 <= kinds.min() <= kinds.max() < len(self.kinds)))
        )


def _damaged(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"{folder.name}/ of {folder.parent.name} is damaged", suggestion="do not serve this version; publish again"
    )
