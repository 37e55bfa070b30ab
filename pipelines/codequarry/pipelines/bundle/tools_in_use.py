"""Programs that write a bundle: part of every manifest, and of the decision that nothing has to be done again."""

from __future__ import annotations

from codequarry.pipelines.embed.encoders import encoder_libraries
from codequarry.pipelines.scip.tools import indexer_versions
from codequarry.pipelines.store.library_versions import SCANNER, library_version, scanner_version, tool_versions
from codequarry.schemas.settings.load import Settings


def tools_in_use(settings: Settings) -> dict[str, str]:
    """Return ``tool_versions``, the encoders' libraries, the scanner, and the SCIP indexers that a run would start."""
    of_encoders = {name: library_version(name) for name in encoder_libraries(settings)}
    scanner = {SCANNER: scanner_version()} if settings.secrets.scan else {}
    return {**tool_versions(), **of_encoders, **scanner, **indexer_versions(settings)}
