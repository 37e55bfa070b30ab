"""The event log of Dagster in SQLite, with SQL engines that are kept from one event to the next."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy import Connection, Engine, NullPool, create_engine

INDEX = "index"
"""The database that Dagster keeps over all runs; each run has one of its own beside it, named by the run."""
BUSY_TIMEOUT_S = 30
"""Seconds that a writer waits for another one, as in Dagster's own storage."""
KEPT_ENGINES = 8
"""Engines that one process keeps. A run needs two; the webserver and the daemon read the logs of several runs."""


class PooledEventLogStorage(SqliteEventLogStorage):
    """Store events where Dagster's own SQLite storage does, and in its format, through engines that are kept.

    Dagster 1.13 makes an SQLAlchemy engine for each connection, and with it compiles each statement again: of a run
    that found nothing changed (475 events, 123 of them checks) that was two fifths of the time (ADR 41). The database
    of a run is still closed after each event, because the webserver's live view waits until that file is written; the
    one over all runs stays open.
    """

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._engines_lock = RLock()
        self._tables: set[str] = set()
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: dict[str, Any]) -> "PooledEventLogStorage":
        """Make the storage below ``base_dir``, which `dagster.yaml` sets to `DAGSTER_HOME`."""
        return cls(str(Path(config_value["base_dir"], "history", "runs")), inst_data)

    def run_connection(self, run_id: str | None = None) -> AbstractContextManager[Connection]:
        """Open a transaction on the log of the run ``run_id``."""
        return self._transaction(run_id or INDEX, super().run_connection)

    def index_connection(self) -> AbstractContextManager[Connection]:
        """Open a transaction on the database over all runs."""
        return self._transaction(INDEX, super().run_connection)

    def has_table(self, table_name: str) -> bool:
        """Tell whether the database over all runs has a table, which Dagster asks for every event of a check."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def wipe(self) -> None:
        """Remove every event. Engines go first, because their databases are removed."""
        self.dispose_engines()
        super().wipe()

    def dispose(self) -> None:
        """Close what is open."""
        self.dispose_engines()
        super().dispose()

    def dispose_engines(self) -> None:
        """Forget every engine and close its connections."""
        with self._engines_lock:
            while self._engines:
                self._engines.popitem()[1].dispose()

    @contextmanager
    def _transaction(self, shard: str, first: Any) -> Iterator[Connection]:
        """Open a transaction on the database ``shard``, the first time as Dagster does, which makes its tables."""
        with self._engines_lock:
            engine = self._engines.get(shard)
            if engine is None:
                with first(shard) as connection:
                    yield connection
                self._keep(shard)
                return
            self._engines.move_to_end(shard)
            with engine.begin() as connection:
                yield connection

    def _keep(self, shard: str) -> None:
        """Keep an engine for ``shard``; the one that was used longest ago goes where there are too many."""
        self._engines[shard] = create_engine(
            self.conn_string_for_shard(shard),
            connect_args={"timeout": BUSY_TIMEOUT_S},
            **({} if shard == INDEX else {"poolclass": NullPool}),
        )
        if len(self._engines) > KEPT_ENGINES:
            self._engines.popitem(last=False)[1].dispose()
