"""What role a source file plays, by what it holds and by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codequarry.pipelines.module_table import SourceModule
from codequarry.pipelines.path_classes import SOURCE

_ENTRY_NAMES = frozenset({"__main__.py", "main.swift"})
_PACKAGE_STEMS = {
    "python": frozenset({"__init__"}),
    "javascript": frozenset({"index"}),
    "typescript": frozenset({"index"}),
    "tsx": frozenset({"index"}),
    "rust": frozenset({"mod", "lib"}),
    "lua": frozenset({"init"}),
}
_RE_EXPORTING = frozenset({"python", "javascript", "typescript", "tsx", "rust"})
_CONFIG = re.compile(r"(?:.*[._-])?(?:settings?|configs?|configuration|conf|options)", re.IGNORECASE)
_CLI = re.compile(
    r"(?:argparse|optparse|click|typer|docopt|fire|cyclopts|plac|absl\.app"  # Python; optparse is Ruby's too
    r"|commander|yargs|meow|cac|oclif|@oclif/core|minimist|citty|clipanion|inquirer|node:util/parseArgs"
    r"|flag|github\.com/spf13/(?:cobra|pflag)|github\.com/urfave/cli(?:/v\d)?|github\.com/alecthomas/kong"
    r"|clap|structopt|argh|pico_args|lexopt"
    r"|picocli|org\.apache\.commons\.cli|com\.beust\.jcommander|com\.github\.ajalt\.clikt|kotlinx\.cli|scopt"
    r"|com\.monovore\.decline|mainargs|System\.CommandLine|CommandLine|Spectre\.Console\.Cli|ArgumentParser"
    r"|thor|slop|gli|Symfony\.Component\.Console|<?getopt\.h>?|<?argp\.h>?|Options\.Applicative|System\.Console\.GetOpt|pl\.lapp|cliargs|.*(?:CLI11|cxxopts|argparse)\.hpp>?)"
    r"(?:\b.*)?"
)


def module_tags(module: SourceModule, path_class: str, written: Iterable[str]) -> list[str]:
    """Tags of a file, sorted.

    written: its imports, as the ``imports`` column has them.
    """
    name = module.path.rpartition("/")[2]
    stem = name.rpartition(".")[0]
    facts = module.facts
    starts = facts.entry_point or name in _ENTRY_NAMES
    holding = {
        "entry_point": starts,
        "cli": any(_CLI.fullmatch(one.replace("\\", ".").replace("::", ".")) for one in written),
        "config": bool(_CONFIG.fullmatch(stem)),
        "package": stem in _PACKAGE_STEMS.get(module.lang, ()),
        "re_export": facts.only_imports and bool(facts.imports) and not starts and module.lang in _RE_EXPORTING,
        path_class: path_class != SOURCE,
    }
    return sorted(tag for tag, holds in holding.items() if holds)
