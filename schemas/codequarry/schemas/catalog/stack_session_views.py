"""SQL of the views over Parquet files of a base and of the delta version over it, for sessions over both."""

from __future__ import annotations

from codequarry.schemas.bundle.shards import SHARDED_TABLES
from codequarry.schemas.catalog.stack_views import StackNames, hidden_chunks
from codequarry.schemas.catalog.views import VIEWS, views


def stacked_tables(names: StackNames, folder: str, *dims: int) -> dict[str, str]:
    """Return the SQL of the views that take the place of those over Parquet files, for a session.

    The delta's own views read its folder; those over the base are written anew with the base's.

    Args:
        names: Names and numbers.
        folder: Folder of the base, as SQL finds it.
        *dims: Dimension of the vectors of each dense index.

    Returns:
        SELECT statements by name of the view.
    """
    quoted = folder.replace("'", "''")
    found: dict[str, str] = {}
    for name, sql in views(*dims).items():
        below = sql.replace("getvariable('bundle')", f"'{quoted}'")
        if name in ("embeddings", "embeddings2", "cst_nodes"):
            live = f"SELECT * FROM ({below}) ANTI JOIN ({hidden_chunks(names)}) USING (chunk_id)"
        elif name == "faiss_idmap":
            found[name] = f"SELECT * FROM {name}_mat"
            continue
        elif name.startswith("scip_"):  # no indexer runs for a delta
            found[name] = f"SELECT * FROM ({below}) ANTI JOIN ({_hidden_files(names)}) USING (repo, path)"
            continue
        elif name in SHARDED_TABLES or name in ("files", "modules"):
            live = f"SELECT * FROM ({below}) ANTI JOIN ({_hidden_files(names)}) USING (repo, path)"
        else:  # made of the others, or of the session
            found[name] = VIEWS[name]
            continue
        found[name] = f"{live} UNION ALL BY NAME SELECT * FROM {names.own}.{name}"
    return found


def _hidden_files(names: StackNames) -> str:
    return f"SELECT repo, path FROM {names.base}.files_mat WHERE file IN (SELECT file FROM {names.schema}.hidden_files)"
