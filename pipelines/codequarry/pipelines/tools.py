"""Which programs write a bundle: part of every manifest, and of the decision that nothing has to be done again."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from codequarry.pipelines.encoders import encoder_libraries
from codequarry.pipelines.grammars import GRAMMARS
from codequarry.pipelines.scip_tools import indexer_versions
from codequarry.pipelines.secret_scanner import LIBRARY
from codequarry.schemas.settings import Settings

_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)
_LIBRARIES = ("duckdb", "faiss-cpu", "numpy", "pyarrow", "tantivy", "tokenizers", "tree-sitter")


@lru_cache(maxsize=1)
def tool_versions() -> dict[str, str]:
    """Version of every library that decides a bundle's bytes whatever its encoder, and a hash of our own code."""
    grammars = sorted({source.module.replace("_", "-") for source in GRAMMARS.values()})
    versions = {name: _version(name) for name in (*_LIBRARIES, *grammars)}
    return {"codequarry": f"{_version('codequarry')}+code.{_own_code()[:12]}", **versions}


def tools_in_use(settings: Settings) -> dict[str, str]:
    """``tool_versions``, the libraries of the encoders, the scanner, and the SCIP indexers that a run would start."""
    of_encoders = {name: _version(name) for name in encoder_libraries(settings)}
    scanner = {LIBRARY: scanner_version()} if settings.secrets.scan else {}
    return {**tool_versions(), **of_encoders, **scanner, **indexer_versions(settings)}


@lru_cache(maxsize=1)
def scanner_version() -> str:
    """Version of the library that finds secrets."""
    return _version(LIBRARY)


def _version(name: str) -> str:
    """As ``metadata.version``, without parsing the whole of what a package says of itself, which takes 3 ms each."""
    distribution = metadata.distribution(name)
    found = _VERSION.search(distribution.read_text("METADATA") or "")
    return found[1] if found else distribution.version


def _own_code() -> str:
    """sha256 over the source of the layers that decide a bundle's contents: an edited chunker is another tool."""
    digest = hashlib.sha256()
    for layer in ("codequarry.schemas", "codequarry.pipelines"):
        spec = find_spec(layer)
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        for file in sorted(file for suffix in ("py", "scm", "json") for file in folder.rglob(f"*.{suffix}")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
