"""The copies of the adoption kit in this repository, as ``serving/cli/install/kit.py`` makes them.

python -m tests.contracts.pages.adoption_kit
"""

from __future__ import annotations

from pathlib import Path

from codequarry.serving.cli.install.kit import gemini_files, plugin_files, registry_entry

PROJECT = Path(__file__).resolve().parents[3]


def files() -> dict[str, str]:
    """Texts by their paths in the repository."""
    plugin = {f"integrations/claude-plugin/{path}": text for path, text in plugin_files().items()}
    extension = {f"integrations/gemini-extension/{path}": text for path, text in gemini_files().items()}
    return {"server.json": registry_entry(), **plugin, **extension}


if __name__ == "__main__":
    for path, text in files().items():
        (PROJECT / path).parent.mkdir(parents=True, exist_ok=True)
        (PROJECT / path).write_text(text, encoding="utf-8")
