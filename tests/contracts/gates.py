"""Every gate a version has to pass, by what it is about, as docs/GATES.md lists them."""

from __future__ import annotations

from codequarry.pipelines.gates.drift import DRIFT
from codequarry.pipelines.gates.secrets import SECRETS
from codequarry.schemas.gates.suites import OF_TABLES, embeddings_suite
from codequarry.serving.version import file_checks


def gates() -> dict[str, list[str]]:
    """Names of the gates by table, and of those that are of no one table."""
    suites = (*OF_TABLES, embeddings_suite("faiss", 1))
    return {
        **{suite.table: [each.name for each in suite.expectations] for suite in suites},
        "across": [*file_checks.NOTHING_OF, *file_checks.OF_EACH_LEG],
        "catalog": [*file_checks.CATALOG_DIFFERS],
        "secrets": [*SECRETS],
        "drift": [*DRIFT],
    }
