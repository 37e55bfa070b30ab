"""Session for interactive SQL over the whole catalog: every table and view of a version, from any folder.

The version's files are only read: its ``catalog.duckdb`` is attached read-only. What a session adds (the registry of
versions, the pool log) lies in the session's own database, in memory unless the caller brings a
connection. A session's own connection has no way to write a file (`catalog_files`). The version is held while the
session is open, so that retention keeps it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.shards import MAX_SHARDS
from codequarry.schemas.catalog.relation_views import RELATION_VIEWS
from codequarry.schemas.catalog.session_tables import CANDIDATES_VIEW, RANK_CHANGES_VIEW, pools_view
from codequarry.schemas.catalog.stack_session_views import stacked_tables
from codequarry.schemas.catalog.views import set_bundle
from codequarry.schemas.errors import CodequarryError, IntegrityError, InvalidArgumentError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.serving.files.integrity import read_manifest, verify
from codequarry.serving.files.lease import Hold, hold_version
from codequarry.serving.sql.confinement import PREFIX, confined_connection
from codequarry.serving.sql.registry import read_registry
from codequarry.serving.stack.overlay import StackArrays, base_paths
from codequarry.serving.stack.stack_tables import attach_catalog, put_stack_tables

if TYPE_CHECKING:
    import duckdb

ATTACHED = "catalog"
"""The name under which a version's ``catalog.duckdb`` holds its views, and so has to be attached."""
_BASE, _STACK = "base_catalog", "stack"
"""Names of the catalog of a delta version's base, and of the schema of what says how the delta lies over it."""


def open_catalog(
    root: Path | str | None = None,
    *,
    version: str = "",
    settings: Path | str | None = None,
    pools: Path | str | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> CatalogSession:
    """Open the catalog of a version for SQL; ``docs/CATALOG.md`` has every table and column.

    >>> with open_catalog("~/src/app/.codequarry/bundles") as catalog:  # doctest: +SKIP
    ...     catalog.sql("SELECT lang, count(*) FROM files GROUP BY ALL").show()

    Args:
        root: Bundle root. When None, it comes from the settings: ``dagster_project.toml`` of the current folder or of
            the nearest one above it that has one.
        version: One of ``codequarry versions``; the current one when empty.
        settings: Settings file to use instead of the nearest.
        pools: Folder of the pool log's parts; that of the settings when None.
        connection: Connection of your own, to a database file for example; what you add stays in it. Its queries reach
            every file that you can; a session's own connection reads the bundle and writes nothing.

    Returns:
        The open session.

    Raises:
        NoBundleError: No version is published.
        NotFoundError: The version does not exist.
        SettingsError: The settings cannot be used.
        IntegrityError: The version does not match its manifest.
    """
    where = _settings(settings) if root is None or pools is None else None
    if root is None:
        assert where is not None
        root = where.bundle.root
    if pools is None:
        assert where is not None
        pools = where.telemetry.pool_folder
    return CatalogSession(
        BundleRoot(Path(root).expanduser().absolute()), version, Path(pools).expanduser().absolute(), connection
    )


class CatalogSession:
    """Session with an open catalog; also a context manager. Belongs to one thread."""

    def __init__(
        self, root: BundleRoot, version: str, pools: Path, connection: duckdb.DuckDBPyConnection | None
    ) -> None:
        """Open a version.

        Args:
            root: Bundle root.
            version: Version to open; the current one when empty.
            pools: Folder of the pool log's parts.
            connection: Connection of the caller; None for a new one, which is closed with the session.
        """
        self.root, self.pools = root, pools
        self._own, self._follows = connection is None, not version
        self._prefix = PREFIX if self._own else ""
        self.connection = connection or confined_connection([root.versions, pools])
        if self._own:
            # DuckDB complains on stderr when Python ends before a connection that holds a Python object.
            self._closing = weakref.finalize(self, self.connection.close)
        self._holds: list[Hold] = []
        self._views: tuple[str, ...] = ()
        try:
            self.manifest = self._show(version)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def paths(self) -> BundlePaths:
        """Files of the version that is open."""
        return self.root.version(self.manifest.version)

    def sql(self, query: str, values: Sequence[Any] = ()) -> duckdb.DuckDBPyRelation:
        """Return the rows of a query, with ``show()``, ``fetchall()``, ``fetchnumpy()``, ``df()`` and the like.

        Args:
            query: SQL statement.
            values: Values for the ``?`` of the query.

        Returns:
            The rows.
        """
        return self.connection.sql(query, params=list(values))

    def refresh(self) -> bool:
        """Take in new versions and pool log parts, and follow CURRENT unless a version was asked for.

        Returns:
            Whether another version is open now.
        """
        before = self.manifest.version
        if self._follows and self.root.read_current().version != before:
            self.manifest = self._show("")
        else:
            self._refresh_views()
        return self.manifest.version != before

    def add_version(self, version: str, name: str = "before") -> None:
        """Show the tables of another version as a schema, ``before.chunks`` for example, to compare them in one query.

        Args:
            version: Version to attach.
            name: Name of the schema.

        Raises:
            NotFoundError: The version does not exist.
            IntegrityError: The version does not match its manifest.
            InvalidArgumentError: It is a delta version, whose tables hold the changed files alone.
        """
        paths = self.root.published(version)
        manifest = read_manifest(paths)
        if manifest.stack is not None:
            raise InvalidArgumentError(
                f"{version} is a delta version, whose tables hold the changed files alone",
                suggestion=f"compare with a complete version, such as its base {manifest.stack.base}",
            )
        verify(paths, manifest, deep=False)
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quote_identifier(name)}")
        names = {Path(entry.path).name.partition(".")[0] for entry in manifest.files if _is_table(entry.path)}
        for table in sorted(names):
            files = ", ".join(_text(f"{self._prefix}{file}") for file in paths.table_files(table))
            self._view(
                f"{_quote_identifier(name)}.{_quote_identifier(table)}", f"SELECT * FROM read_parquet([{files}])"
            )

    def close(self) -> None:
        """Release the version; a connection of the caller stays open, without it."""
        import duckdb

        if self._own:
            self._closing()
        else:
            with suppress(duckdb.Error):
                self.connection.execute(f"DETACH DATABASE IF EXISTS {ATTACHED}")
                self.connection.execute(f"DETACH DATABASE IF EXISTS {_BASE}")
        self._release()

    def _show(self, version: str) -> Manifest:
        """Make a version the session's own; the one before it stays open when this one cannot be opened."""
        import duckdb

        while True:
            current = None if version else self.root.read_current()
            paths = self.root.published(version) if current is None else self.root.version(current.version)
            try:
                with ExitStack() as undo:
                    holds = [undo.enter_context(hold_version(paths))]
                    manifest = read_manifest(paths, expected_sha256=current and current.manifest_sha256)
                    verify(paths, manifest, deep=False)
                    below = base_paths(paths, manifest)
                    if below is not None and manifest.stack is not None:
                        holds.append(undo.enter_context(hold_version(below)))
                        verify(below, read_manifest(below, expected_sha256=manifest.stack.base_sha256), deep=False)
                    undo.pop_all()
                break
            except CodequarryError:
                # The version may have been replaced and pruned meanwhile.
                if current is None or self.root.read_current() == current:
                    raise
        try:
            self._attach(paths, manifest)
        except (duckdb.Error, IntegrityError) as error:
            for hold in holds:
                hold.release()
            if self._holds:
                self._attach(self.paths, self.manifest)
            raise IntegrityError(
                f"the catalog of {paths.path.name} cannot be opened: {str(error).splitlines()[0]}",
                suggestion="`codequarry verify --deep` tells whether it is damaged; with a connection of your own, "
                "keep the names of its tables apart from those of the catalog",
            ) from error
        self._release()
        self._holds = holds
        return manifest

    def _release(self) -> None:
        for hold in self._holds:
            hold.release()

    def _attach(self, paths: BundlePaths, manifest: Manifest) -> None:
        execute = self.connection.execute
        execute(f"DETACH DATABASE IF EXISTS {_BASE}")
        execute(f"DETACH DATABASE IF EXISTS {ATTACHED}")
        execute(f"ATTACH {_text(f'{self._prefix}{paths.catalog}')} AS {ATTACHED} (READ_ONLY)")
        execute(set_bundle(f"{self._prefix}{paths.path}"))
        found = execute(
            "SELECT view_name FROM duckdb_views() WHERE database_name = ? AND NOT internal "
            "UNION ALL SELECT table_name FROM duckdb_tables() WHERE database_name = ?",
            [ATTACHED, ATTACHED],
        ).fetchall()
        names = tuple(name for (name,) in found)
        for gone in set(self._views) - set(names):
            execute(f"DROP VIEW IF EXISTS {_quote_identifier(gone)}")
        below, stacked = base_paths(paths, manifest), dict[str, str]()
        if below is not None:
            stacked = self._stack_views(paths, below, manifest)
        for name in names:
            if name not in stacked:
                self._view(_quote_identifier(name), f"SELECT * FROM {ATTACHED}.{_quote_identifier(name)}")
        for name, sql in (stacked | RELATION_VIEWS).items():
            self._view(_quote_identifier(name), sql)
        self._views = names
        self._refresh_views()

    def _stack_views(self, paths: BundlePaths, below: BundlePaths, manifest: Manifest) -> dict[str, str]:
        """Attach the base of a delta version, and return the SQL of the views over both."""
        stack = StackArrays.read(paths)
        self.connection.execute(attach_catalog(f"{self._prefix}{below.catalog}", _BASE))
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_STACK}")
        numbers = stack.numbers(_BASE, ATTACHED, _STACK, MAX_SHARDS)
        dims = [leg.encoder.dim for leg in manifest.legs]
        return put_stack_tables(self.connection, stack, numbers) | stacked_tables(
            numbers, f"{self._prefix}{below.path}", *dims
        )

    def _refresh_views(self) -> None:
        ensure_registry(self.connection, self.root)
        ensure_pool_views(self.connection, self.pools, prefix=self._prefix)

    def _view(self, name: str, query: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")


def ensure_registry(connection: duckdb.DuckDBPyConnection, root: BundleRoot) -> None:
    """Make ``manifests``, ``manifest_sources`` and ``manifest_indexes`` hold the versions that are published now."""
    for name, rows in read_registry(root).items():
        connection.register("registry_rows", rows)
        try:
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM registry_rows")
        finally:
            connection.unregister("registry_rows")


def ensure_pool_views(connection: duckdb.DuckDBPyConnection, folder: Path, *, prefix: str = "") -> None:
    """Make the views of the pool log show a folder of parts, which may be empty or missing.

    ``v_pool_candidates`` needs the view ``chunks`` of the connection.

    Args:
        connection: Connection that gets the views.
        folder: Folder of the parts.
        prefix: Stands before paths in SQL.
    """
    connection.execute(f"CREATE OR REPLACE VIEW pools AS {pools_view(folder, prefix=prefix)}")
    connection.execute(f"CREATE OR REPLACE VIEW v_pool_candidates AS {CANDIDATES_VIEW}")
    connection.execute(f"CREATE OR REPLACE VIEW v_pool_rank_changes AS {RANK_CHANGES_VIEW}")


def _settings(given: Path | str | None) -> Settings:
    if given is not None:
        return load_settings(Path(given).expanduser())
    return load_settings(look="up")


def _is_table(path: str) -> bool:
    return path.startswith("tables/") and path.endswith(".parquet")


def _quote_identifier(name: str) -> str:
    if not name:
        raise InvalidArgumentError("a schema needs a name", suggestion='leave it out for "before"')
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
