"""Shares of the values of a column in CURRENT, which a distribution is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from codequarry.pipelines.gates.native_suites import NativeSuite
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.files.integrity import complete_manifest

MIN_ROWS = 500
"""Rows that CURRENT has to hold of the repositories that are compared: the shares of fewer change with every edit."""


@dataclass(frozen=True, slots=True)
class PublishedShares:
    """Shares of CURRENT over the repositories that are judged, or the reason why there are none."""

    why_not: str = ""
    """Sentence that says why nothing is compared; "" where something is, and for a table without distributions."""
    version: str = ""
    repositories: tuple[str, ...] = ()
    """Those that are in both."""
    columns: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """Share by value, by column."""

    @property
    def sentence(self) -> str:
        """The reason, or what is compared with."""
        return self.why_not or (f"distributions are compared with version {self.version}" if self.columns else "")


def published_shares(
    root: BundleRoot, suite: NativeSuite, repositories: Collection[str], besides: str = ""
) -> PublishedShares:
    """Read the shares of CURRENT that a suite compares with.

    Args:
        root: Bundle root.
        suite: The suite.
        repositories: Repositories that are judged.
        besides: A version that is not compared with itself.

    Returns:
        The shares, or why there are none.
    """
    import duckdb

    if not suite.distributions:
        return PublishedShares()
    manifest = complete_manifest(root)
    if manifest is None:
        return PublishedShares("distributions are compared with nothing: no version is published")
    if manifest.version == besides:
        return PublishedShares("distributions are compared with nothing: this is CURRENT itself")
    common = tuple(sorted({source.name for source in manifest.sources} & set(repositories)))
    files = [str(file) for file in root.version(manifest.version).table_files(suite.table)]
    columns: dict[str, Mapping[str, float]] = {}
    rows = 0
    try:
        with closing(duckdb.connect()) as connection:
            for column in suite.distributions if common and files else ():
                counts = connection.execute(
                    f"SELECT {column}, count(*) FROM read_parquet(?) WHERE list_contains(?, repo) "
                    "GROUP BY ALL ORDER BY ALL",
                    [files, list(common)],
                ).fetchall()
                rows = sum(count for _, count in counts)
                columns[column] = {value: count / rows for value, count in counts}
    except (OSError, duckdb.Error) as error:
        raise_if_exhausted(error, f"version {manifest.version} cannot be compared now")
        return PublishedShares(f"distributions are compared with nothing: version {manifest.version} cannot be read")
    if rows < MIN_ROWS:
        return PublishedShares(
            f"distributions are compared with nothing: CURRENT holds {rows:,} rows of these repositories, "
            f"fewer than {MIN_ROWS:,}"
        )
    return PublishedShares("", manifest.version, common, columns)
