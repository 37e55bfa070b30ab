"""Versions of the libraries and of our own code that decide a bundle's bytes."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from codequarry.schemas.install_hints import REPLACEMENTS

SCANNER = "kingfisher-secret-scanner"
"""Library that finds secrets."""
GRAMMARS = tuple(
    f"tree-sitter-{name}"
    for name in (
        "bash c c-sharp cpp css elixir go haskell html java javascript json kotlin lua markdown php python ruby rust "
        "scala sql swift toml typescript yaml zig"
    ).split()
)
"""Libraries that parse one language each."""
_OWN_CODE = ("schemas", "pipelines", "serving.catalog", "serving.encoders", "serving.files", "serving.text")
"""Packages whose code decides what a bundle holds."""
_LIBRARIES = ("charset-normalizer", "duckdb", "faiss-cpu", "numpy", "pyarrow", "tantivy", "tokenizers", "tree-sitter")
_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


@lru_cache(maxsize=1)
def tool_versions() -> dict[str, str]:
    """Return the versions of the libraries that decide any bundle's bytes, and a hash of our own code."""
    versions = {name: library_version(name) for name in (*_LIBRARIES, *GRAMMARS)}
    return {"codequarry": own_version(), **versions}


@lru_cache(maxsize=1)
def own_version() -> str:
    """Return the version of this program, with a hash of the code that decides a bundle's bytes."""
    return f"{library_version('codequarry')}+code.{_own_code()[:12]}"


@lru_cache(maxsize=1)
def scanner_version() -> str:
    """Return the version of the library that finds secrets."""
    return library_version(SCANNER)


def library_version(name: str) -> str:
    """Return the version of an installed library, as ``metadata.version`` does.

    One that is installed in its place is named behind the version. Only the version line is read: parsing all metadata
    would take 3 ms for each library.

    Args:
        name: Name of the distribution.

    Returns:
        Its version.

    Raises:
        PackageNotFoundError: Neither it nor a replacement is installed.
    """
    for candidate in (name, *REPLACEMENTS.get(name, ())):
        try:
            distribution = metadata.distribution(candidate)
        except metadata.PackageNotFoundError:
            continue
        line = _VERSION.search(distribution.read_text("METADATA") or "")
        version = line[1] if line else distribution.version
        return version if candidate == name else f"{version} ({candidate})"
    raise metadata.PackageNotFoundError(name)


def _own_code() -> str:
    """Return the sha256 of the source that decides a bundle's contents: an edited chunker is another tool."""
    digest = hashlib.sha256()
    for package in _OWN_CODE:
        spec = find_spec(f"codequarry.{package}")
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        for file in sorted(file for suffix in ("py", "scm", "json") for file in folder.rglob(f"*.{suffix}")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
