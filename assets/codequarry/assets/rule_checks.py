"""The rules of verification as asset checks: one for each rule, on the part of the version that it is about."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.metadata import markdown_table
from codequarry.pipelines.gates.version_rules import Rule
from codequarry.schemas.bundle.manifest import AcceptedEntry, Manifest

if TYPE_CHECKING:
    from codequarry.serving.version.check import Check

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def check_specs(rules: Sequence[Rule]) -> list[dg.AssetCheckSpec]:
    """Return the checks that a version has."""
    return [
        dg.AssetCheckSpec(
            rule.name, asset=rule.part, blocking=True, description=f"{rule.title[0].upper()}{rule.title[1:]}."
        )
        for rule in rules
    ]


def check_results(
    rules: Sequence[Rule], checks: "Sequence[Check]", accepted: Sequence[AcceptedEntry]
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every rule.

    Args:
        rules: Rules of the version.
        checks: The checks that were made; verification that stops early makes no others.
        accepted: Failed checks that were accepted, which only warn.

    Yields:
        A result for each rule; a rule without a check passes and says so.
    """
    reasons = {entry.check: entry.reason for entry in accepted}
    for rule in rules:
        own = [check for check in checks if rule.pattern.fullmatch(check.name)]
        failed = [check for check in own if not check.passed and check.name not in reasons]
        warned = [check for check in own if check.warning or check.name in reasons]
        yield dg.AssetCheckResult(
            passed=not failed and not warned,
            asset_key=rule.part,
            check_name=rule.name,
            severity=dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN,
            description=_describe_result(own, failed, warned, reasons),
            metadata=_figures(failed or warned or own, own),
        )


def unchanged_results(rules: Sequence[Rule], held: Manifest) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of a version that was verified before it was published, and not since."""
    for rule in rules:
        yield dg.AssetCheckResult(
            passed=True,
            asset_key=rule.part,
            check_name=rule.name,
            description=f"nothing changed: version {held.version} was verified when it was built",
        )


def _describe_result(
    own: "Sequence[Check]", failed: "Sequence[Check]", warned: "Sequence[Check]", reasons: Mapping[str, str]
) -> str:
    if not own:
        return "not asked of this version: there is nothing to compare with, or an earlier check stopped it"
    if failed:
        return "; ".join(map(_describe, failed))
    accepted = [f"{_describe(one)}; accepted: {reasons[one.name]}" for one in warned if one.name in reasons]
    warnings = [one.warning for one in warned if one.warning]
    return "; ".join((*accepted, *warnings)) or f"{own[0].found}, allowed {own[0].expected}"


def _describe(check: "Check") -> str:
    return f"{check.name}: {check.found}, allowed {check.expected}"


def _figures(told: "Sequence[Check]", own: "Sequence[Check]") -> dict[str, Any]:
    """Return what the first check found and allows, as numbers where they are, so that Dagster draws their history."""
    if not told:
        return {}
    first = told[0]
    figures: dict[str, Any] = {
        "found": _number(first.found), "allowed": _number(first.expected), "examples": list(first.examples),
    }  # fmt: skip
    if len(own) > 1:
        rows = [{"check": one.name, "found": one.found, "allowed": one.expected} for one in own]
        figures["checks"] = markdown_table(rows, ("check", "found", "allowed"))
    return figures


def _number(text: str) -> float | str:
    """Return the first number of a text; the text when there is none.

    >>> _number("7.6 MB"), _number("at most 1,000"), _number("none")
    (7.6, 1000.0, 'none')
    """
    found = _NUMBER.search(text)
    return float(found[0].replace(",", "")) if found else text
