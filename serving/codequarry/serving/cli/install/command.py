"""Command ``codequarry install``: adds the server to the configurations of agents, and takes it out again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.trust.state_home import HOME_FOLDER
from codequarry.serving.cli.clients import stdio_command
from codequarry.serving.cli.install import kit
from codequarry.serving.cli.install.clients import (
    CLIENTS,
    NAME,
    PRINTED,
    TOKEN,
    TOKEN_VARIABLE,
    McpClient,
    Server,
    jsonc_beside,
    snippet,
)
from codequarry.serving.cli.install.json_text import UnreadableConfigError
from codequarry.serving.cli.install.record import ConfigChange, apply_change, plan_install, plan_undo, written_names
from codequarry.serving.cli.install.targets import ConfigTarget
from codequarry.serving.cli.options import RootOption, SettingsOption
from codequarry.serving.cli.terminal import for_terminal, print_table, say

_GUIDES = ("AGENTS.md", "CLAUDE.md")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("install")(install)


def install(
    clients: Annotated[
        list[str] | None, typer.Argument(metavar="[CLIENT]...", help=f"Of {', '.join(PRINTED)}; none lists them.")
    ] = None,
    all_found: Annotated[bool, typer.Option("--all", help="All clients that are found.")] = False,
    project: Annotated[
        bool, typer.Option("--project", help="The file of the project in the current folder, not the user's own.")
    ] = False,
    only_print: Annotated[bool, typer.Option("--print", help="Print the configuration, and write nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take out what was written, and nothing else.")] = False,
    url: Annotated[
        str,
        typer.Option(
            help="Of a running service, e.g. http://127.0.0.1:8321; the client starts "
            "`codequarry serve --stdio` itself when left out."
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(help="Name of the server.", show_default="codequarry, with the folder of its own index")
    ] = "",
    skill: Annotated[bool, typer.Option("--skill", help="A skill that says when to search, when to grep.")] = False,
    skills_folder: Annotated[
        Path | None, typer.Option("--to", help="Folder of skills.", show_default="~/.claude/skills")
    ] = None,
    agents_md: Annotated[
        bool, typer.Option("--agents-md", help="A block in AGENTS.md, or in CLAUDE.md where only that is.")
    ] = False,
    plugin: Annotated[Path | None, typer.Option(help="Folder for a plugin of Claude Code.")] = None,
    gemini_extension: Annotated[Path | None, typer.Option(help="Folder for an extension of Gemini CLI.")] = None,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Add the server to the configurations of agents.

    Everything else in a file stays as it is, comments included. A file that cannot be read is left alone.

    Examples:

      codequarry install                        list the clients that are found

      codequarry install cursor vscode

      codequarry install --all --dry-run

      codequarry install cursor --undo

      codequarry install cursor --print > .cursor/mcp.json

      codequarry install --skill --agents-md
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    service = url.rstrip("/").removesuffix("/mcp")
    if service:
        server, subject, default = Server(url=service, token=settings.auth.required), service, NAME
    else:
        server = Server(command=stdio_command(("serve", "--stdio", "--root", str(settings.bundle.root)), settings_file))
        subject, default = str(settings.bundle.root), server_name(settings.bundle.root)
    named, name = bool(name), _checked_name(name or default)
    keys = _chosen_clients(clients or [], all_found=all_found, project=project, written=name if undo else "")
    if only_print:
        _print(keys, name, server)
        return
    targets = [_client_target(CLIENTS[key], name, server, project=project) for key in keys if key in CLIENTS]
    targets += _kit_targets(skill, skills_folder, agents_md, plugin, gemini_extension, project=project)
    if "chatgpt" in keys:
        found = snippet("chatgpt", server)
        typer.echo(f"{found.title} has no file; in {found.where}:\n{found.text}")
    if not targets and not keys:
        _list(none_found=all_found)
        return
    # An entry that is named is taken out whichever index it is for.
    _run(targets, "" if undo and named else subject, undo=undo, dry_run=dry_run)
    if not (undo or dry_run):
        _remark(keys, server, project=project)


def server_name(root: Path) -> str:
    """Return the name of the server of a bundle root.

    It is ``codequarry``, with the name of the folder for an index that lies in the folder it was made for.

    >>> server_name(Path("/srv/bundles")), server_name(Path("/home/me/My App/.codequarry/bundles"))
    ('codequarry', 'codequarry-my-app')
    """
    if root.parent.name != HOME_FOLDER:
        return NAME
    folder = re.sub(r"[^a-z0-9_]+", "-", root.parent.parent.name.lower()).strip("-")
    return f"{NAME}-{folder}"[:60] if folder else NAME


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):
        raise InvalidArgumentError(
            f"--name {name}: expected letters, digits, '_' and '-', at most 60", suggestion=f"e.g. {NAME}-app"
        )
    return name


def _chosen_clients(given: list[str], *, all_found: bool, project: bool, written: str) -> list[str]:
    """Return the clients that were named, or with ``all_found`` those that are there."""
    unknown = [key for key in given if key not in PRINTED]
    if unknown:
        raise InvalidArgumentError(f"no client {unknown[0]!r} is known", suggestion=f"give one of {', '.join(PRINTED)}")
    if not all_found:
        without = [key for key in given if project and key in CLIENTS and not CLIENTS[key].project_file]
        if without:
            raise InvalidArgumentError(
                f"{CLIENTS[without[0]].title} has no file of a project", suggestion="leave --project out"
            )
        return list(dict.fromkeys(given))
    if given:
        raise InvalidArgumentError("--all and a client", suggestion="give one of both")
    found = [key for key, client in CLIENTS.items() if _is_found(client) and (client.project_file or not project)]
    if written and not project:
        found += [key for key, client in CLIENTS.items() if key not in found and _has(client, written)]
    return found


def _is_found(client: McpClient) -> bool:
    return any(mark.exists() for mark in client.marks())


def _has(client: McpClient, name: str) -> bool:
    return _entry_name(client, name) in written_names(client.user_file())


def _entry_name(client: McpClient, name: str) -> str:
    return f"{client.key} {name}"


def _print(keys: list[str], name: str, server: Server) -> None:
    if not keys:
        raise InvalidArgumentError("--print without a client", suggestion=f"give one of {', '.join(PRINTED)}")
    for key in keys:
        typer.echo(snippet(key, server).text if key == "chatgpt" else CLIENTS[key].text(name, server))


def _client_target(client: McpClient, name: str, server: Server, *, project: bool) -> ConfigTarget:
    folder = Path.cwd() if project else None
    file = folder / client.project_file if folder else client.user_file()
    return ConfigTarget(
        jsonc_beside(file) if client.key == "opencode" else file,
        client.language,
        client.entry(server),
        (*client.keys, name),
        _entry_name(client, name),
        client.comments,
        client.commas,
        folder,
    )


def _kit_targets(
    skill: bool, skills: Path | None, agents_md: bool, plugin: Path | None, extension: Path | None, *, project: bool
) -> list[ConfigTarget]:
    here = Path.cwd()
    files: dict[Path, str] = {}
    if skills is not None and not skill:
        raise InvalidArgumentError("--to without --skill", suggestion="give both")
    if skill:
        folder = skills or (here if project else Path.home()) / ".claude" / "skills"
        files[folder.expanduser().absolute() / NAME / "SKILL.md"] = kit.SKILL
    for given, texts in ((plugin, kit.plugin_files), (extension, kit.gemini_files)):
        if given is not None:
            files |= {given.expanduser().absolute() / path: text for path, text in texts().items()}
    targets = [ConfigTarget(file, "file", text, name=NAME) for file, text in files.items()]
    if agents_md:
        guide = next((here / one for one in _GUIDES if (here / one).exists()), here / _GUIDES[0])
        targets.append(ConfigTarget(guide, "block", kit.AGENTS_BLOCK, name=f"{NAME} block", project=here))
    return targets


def _run(targets: list[ConfigTarget], subject: str, *, undo: bool, dry_run: bool) -> None:
    """ConfigChange the files one by one; one that cannot be changed keeps no other from it."""
    failed: list[CodequarryError] = []
    # The folders that the first file needed go when the last one is gone.
    for target in reversed(targets) if undo else targets:
        wanted = subject if target.keys else ""
        try:
            change = plan_undo(target, wanted) if undo else plan_install(target, wanted)
            _finish(target, change, dry_run=dry_run)
        except UnreadableConfigError as error:
            failed.append(
                InvalidArgumentError(
                    f"{target.file} is left as it is: {error.message}",
                    suggestion="mend the file, or put in by hand what --print prints",
                )
            )
        except CodequarryError as error:
            failed.append(error)
    for error in failed[:-1]:
        say(f"error: {error.message}", err=True)
    if failed:
        raise failed[-1]


def _finish(target: ConfigTarget, change: ConfigChange | None, *, dry_run: bool) -> None:
    shown = for_terminal(str(target.file))
    if change is None:
        say(f"{shown}: nothing of codequarry is there")
        return
    if dry_run:
        typer.echo(for_terminal(change.diff) or f"{shown}: nothing would change", nl=not change.diff)
        return
    apply_change(change)
    if change.after == change.before:
        say(f"{shown}: nothing to change")
    elif change.after is None:
        say(f"{shown}: removed")
    else:
        what = target.keys[-1] if target.keys else "written"
        say(f"{shown}: {what}" + ("" if change.receipt else " taken out"))


def _remark(keys: list[str], server: Server, *, project: bool) -> None:
    if server.token:
        written = [key for key in keys if key in CLIENTS and TOKEN in json.dumps(CLIENTS[key].entry(server))]
        if [key for key in keys if key in CLIENTS and key not in written]:
            say(f"The service needs a token: put it into the environment variable {TOKEN_VARIABLE}.")
        if written:
            say(f"Put a token in place of {TOKEN} in the file of {', '.join(written)}.")
    if project and server.command and keys:
        say("The entry holds paths of this machine: others who share the project need one of their own.")


def _list(*, none_found: bool) -> None:
    if none_found:
        raise NotFoundError("no client was found", suggestion=f"name one of {', '.join(CLIENTS)}")
    rows = [
        (client.key, "yes" if _is_found(client) else "", _state(client), str(client.user_file()))
        for client in CLIENTS.values()
    ]
    print_table(("client", "found", "installed as", "file"), rows, whole=3)
    say("Install with `codequarry install CLIENT`, or `--all` for those that are found; `--dry-run` shows it.")


def _state(client: McpClient) -> str:
    prefix = _entry_name(client, "")
    try:
        names = written_names(client.user_file())
        return ", ".join(one.removeprefix(prefix) for one in names if one.startswith(prefix))
    except CodequarryError:
        return "?"
