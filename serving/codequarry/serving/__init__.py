"""L1: the read-only service and the command line. No Dagster, no torch, no subprocess, no write.

``open_catalog`` is the entry point for notebooks and programs: SQL over a published version.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codequarry.serving.sql.session import CatalogSession, open_catalog

__all__ = ["CatalogSession", "open_catalog"]


def __getattr__(name: str) -> Any:
    # Every command imports this package, but few use a session.
    if name in __all__:
        from codequarry.serving.sql import session as catalog_session

        return getattr(catalog_session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
