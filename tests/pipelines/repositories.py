"""Small git repositories for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder with a fixed identity and clock."""
    identity = {"NAME": "Test", "EMAIL": "test@example.invalid", "DATE": "2026-01-01T00:00:00Z"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in identity.items()}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments], cwd=folder, env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit(folder: Path, files: dict[str, str | bytes], message: str = "change") -> str:
    """Write files, commit everything, return the commit id; initializes the repository when needed."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def shim(folder: Path, program: str, script: str) -> str:
    """A PATH on which a program is a shell script; the real one is ``$REAL`` to the script."""
    real = shutil.which(program) or "false"
    fake = folder / program
    folder.mkdir(parents=True, exist_ok=True)
    fake.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
    fake.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
