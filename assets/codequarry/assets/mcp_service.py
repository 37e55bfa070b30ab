"""The service that answers from the bundle: an asset that nothing here makes, and a sensor that asks what it serves."""

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

import dagster as dg

from codequarry.assets.project import Project
from codequarry.assets.stages import OWNERS
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.load import Settings

_TIMEOUT_S = 10
_MOST_BYTES = 1 << 20
mcp_service = dg.AssetSpec(
    "mcp_service",
    description="The MCP service. It follows CURRENT by itself; the sensor `served_version` reports what it serves.",
    group_name="serving",
    owners=OWNERS,
    kinds={"mcp"},
    deps=["published_bundle"],
)


@dg.asset_check(asset=mcp_service.key, description="The version that the service answers from is the published one.")
def served_is_published(project: Project) -> dg.AssetCheckResult:
    with project.explained(0) as settings:
        if not settings.automation.service_url:
            raise InvalidArgumentError("no service to ask", suggestion="set [automation] service_url to its address")
        comparison = _compare(settings)
        return dg.AssetCheckResult(
            passed=comparison.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=comparison.said,
            metadata=comparison.figures,
        )


@dg.sensor(
    description="Asks the service at [automation] service_url which version it serves, and compares it with CURRENT.",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def served_version(
    context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]
) -> dg.SensorResult | dg.SkipReason:
    settings = project.settings()
    if not settings.automation.service_url:
        return dg.SkipReason("[automation] service_url of the settings names no service")
    try:
        comparison = _compare(settings)
    except UnavailableError as error:
        return dg.SkipReason(error.message)
    if context.cursor == comparison.said:
        return dg.SkipReason(comparison.said)
    evaluation = dg.AssetCheckEvaluation(
        asset_key=mcp_service.key,
        check_name="served_is_published",
        passed=comparison.passed,
        description=comparison.said,
        metadata=comparison.figures,
        severity=dg.AssetCheckSeverity.WARN,
    )
    materialization = dg.AssetMaterialization(mcp_service.key, metadata=comparison.figures)
    return dg.SensorResult(cursor=comparison.said, asset_events=[materialization, evaluation])


class _ServedVersion(NamedTuple):
    """Served version beside the published one."""

    passed: bool
    said: str
    figures: dict[str, str]


def _compare(settings: Settings) -> _ServedVersion:
    """Ask the service; raises as `BundleRoot.read_current`."""
    published = BundleRoot(settings.bundle.root).read_current().version
    health = _health(settings.automation.service_url)
    served = str(health.get("bundle", {}).get("version", "")) or "nothing"
    status, problem = str(health.get("status", "unknown")), health.get("problem", "")
    said = f"{served} is served, {published} is published, the service is {status}"
    return _ServedVersion(
        served == published,
        f"{said}: {problem}" if problem else said,
        {"found": served, "allowed": published, "status": status},
    )


def _health(address: str) -> dict[str, Any]:
    """Return what the service says of itself; its status is ``unreachable`` when it does not answer."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/healthz", timeout=_TIMEOUT_S) as answer:
            body = answer.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        body = error.read(_MOST_BYTES)  # 503 while nothing is served, with the same document
    except OSError as error:
        return {"status": "unreachable", "problem": f"it does not answer ({type(error).__name__})"}
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"status": "unknown", "problem": "its answer is no JSON object"}
