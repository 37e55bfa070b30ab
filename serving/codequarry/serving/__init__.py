"""L1: the read-only service and the command line. No Dagster, no torch, no subprocess, no write.

``open_catalog`` is the door for notebooks and programs: SQL over a published version.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codequarry.serving.catalog_session import CatalogSession, open_catalog

__all__ = ["CatalogSession", "open_catalog"]


def __getattr__(name: str) -> Any:
    # Every command imports this package, few of them a session.
    if name in __all__:
        from codequarry.serving import catalog_session

        return getattr(catalog_session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
