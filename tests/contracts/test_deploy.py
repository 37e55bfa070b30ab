"""Files of `deploy/`: commands and settings that exist, versions of the lock, containers that may do little."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from codequarry.pipelines.cli.root import build_app
from codequarry.schemas.settings.load import Settings

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
PODS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes/replicas.yaml").read_text(encoding="utf-8")))
OURS = {name: each for name, each in COMPOSE["services"].items() if each["image"].startswith("codequarry")}


def _containers() -> list[dict[str, Any]]:
    return [
        each for pod in PODS if pod["kind"] == "StatefulSet" for each in pod["spec"]["template"]["spec"]["containers"]
    ]


def _commands() -> dict[str, list[str]]:
    """Arguments of `codequarry` by what runs them."""
    found = {name: service["command"] for name, service in OURS.items() if service["image"] != "codequarry-dagster"}
    for container in _containers():
        arguments = container["args"]
        if "command" in container:  # of a shell
            arguments = shlex.split(arguments[0].replace("$((POD_INDEX + 1))", "1"))[2:]
        found[f"pod {container['name']}"] = arguments
    return found


@pytest.mark.parametrize(("name", "arguments"), _commands().items(), ids=_commands())
def test_commands_are_those_of_the_command_line(name: str, arguments: list[str]) -> None:
    command: Any = get_command(build_app())
    rest = [str(each) for each in arguments]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context(name, rest, resilient_parsing=True)


def test_variables_are_settings() -> None:
    named = {
        (name, str(value))
        for service in OURS.values()
        for name, value in service.get("environment", {}).items()
        if name.startswith("CODEQUARRY__")
    } | {
        (each["name"], each["value"])
        for container in _containers()
        for each in container.get("env", ())
        if each["name"].startswith("CODEQUARRY__")
    }
    assert len(named) >= 5
    for name, value in named:
        section, key = name.lower().split("__")[1:]
        parsed = json.loads(value) if value.startswith("[") else value
        Settings.model_validate({section: {key: parsed}})


def test_containers_are_confined() -> None:
    for name, service in OURS.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    for container in _containers():
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"] and not confined["allowPrivilegeEscalation"], container["name"]
        assert confined["capabilities"] == {"drop": ["ALL"]}
    users = re.findall(r"^USER (\w+)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert users[-1] == users[0] == "10001"


def test_libraries_of_dagster_are_those_of_its_release() -> None:
    lock = (PROJECT / "requirements-dev.lock").read_text(encoding="utf-8")
    core = re.search(r"^dagster==1\.(\d+)\.(\d+)$", lock, re.MULTILINE)
    assert core is not None
    wanted = f"0.{int(core[1]) + 16}.{core[2]}"
    pinned = re.findall(r"dagster-\w+==(\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert pinned == [wanted, wanted]


def test_the_instance_is_that_of_the_template_but_for_its_records() -> None:
    template = yaml.safe_load((PROJECT / "assets/codequarry/assets/instance/dagster.yaml").read_text(encoding="utf-8"))
    deployed = yaml.safe_load((DEPLOY / "dagster.yaml").read_text(encoding="utf-8"))
    del template["event_log_storage"]
    for key in ("storage", "compute_logs", "local_artifact_storage"):
        del deployed[key]
    assert deployed == template


def test_labels_shares_and_volumes_belong_together() -> None:
    service, budget, pods = PODS
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == pods["spec"]["selector"]["matchLabels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert pods["spec"]["serviceName"] == service["metadata"]["name"]
    follow = next(each for each in _containers() if each["name"] == "follow")
    assert f'/{pods["spec"]["replicas"]}"' in follow["args"][0]
    volumes = {each["name"] for each in pods["spec"]["template"]["spec"]["volumes"]}
    volumes |= {each["metadata"]["name"] for each in pods["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for each in _containers() for mount in each["volumeMounts"]} == volumes
    mounted = {volume.partition(":")[0] for each in COMPOSE["services"].values() for volume in each.get("volumes", ())}
    assert {name for name in mounted if not name.startswith(".")} == set(COMPOSE["volumes"])
