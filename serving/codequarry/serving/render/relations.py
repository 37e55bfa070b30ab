"""Answer of ``relations`` as text: a line for each relation, further ones below the one they were reached from."""

from __future__ import annotations

from codequarry.schemas.wire.relations import RelationResult, RelationsAnswer
from codequarry.schemas.wire.search import BundleInfo
from codequarry.serving.catalog import present
from codequarry.serving.render.lines import footer, on_disk, shown_path


def relations_text(answer: RelationsAnswer) -> str:
    """Return the relations as a model reads them.

    Args:
        answer: The answer.

    Returns:
        What was asked about, a line for each relation, totals and limits.
    """
    bundle = answer.bundle
    lines = [f"of {' · '.join(_target(one, bundle) for one in answer.targets)}"] if answer.targets else []
    lines += [_relation(one, bundle) for one in answer.results]
    if not answer.results:
        lines.append("no such relation in this index")
    many = f"{len(answer.results)} of {answer.total:,}" if answer.total > len(answer.results) else ""
    return "\n".join([*lines, *footer(bundle, [one.uri for one in answer.results], [many], answer.limits)])


def _target(text: str, bundle: BundleInfo) -> str:
    """Return a target without its repository where there is only one: ``method A.open app/a.py:3``, ``app/a.py``."""
    head, space, uri = text.rpartition(" ")
    return f"{head}{space}{shown_path(uri, bundle)}"


def _relation(one: RelationResult, bundle: BundleInfo) -> str:
    path = shown_path(one.uri, bundle)
    whole_file = one.kind == "file" and not one.start_line and one.relation not in ("calls", "uses")
    place = path if whole_file else f"{path}:{one.start_line + 1}"
    name = f"  {one.kind} {one.name}" if one.name else ""
    reason = f"  {present.code_line(one.reason).strip()}" if one.reason else ""
    relation = f"{one.relation} {one.of}" if one.depth == 1 and one.of else one.relation
    evidence = "" if one.evidence == "exact" else one.evidence
    said = ", ".join(part for part in (relation, evidence, "again" if one.again else "") if part)
    state = on_disk(one.on_disk)
    step = 0 if one.relation == "tests" else one.depth - 1
    return f"{'  ' * step}{place}{name}{reason}  [{said}]{f' {state}' if state else ''}"
