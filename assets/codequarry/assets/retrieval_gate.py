"""The gate that asks: a staged version is opened by the reader that will serve it, and asked what CURRENT is asked."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import closing

from codequarry.assets.ann_recall import ann_recall
from codequarry.assets.golden import check_golden
from codequarry.assets.retrieval_comparison import compare
from codequarry.assets.verdict import Verdict, write_verdict
from codequarry.pipelines.faiss_stage import questions as index_questions
from codequarry.pipelines.tools import tool_versions
from codequarry.pipelines.workspace import Progress, write_json
from codequarry.schemas.checks import Check
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.faiss_tuning import read_tuning
from codequarry.schemas.integrity import current_manifest, file_sha256, read_manifest
from codequarry.schemas.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.settings import Settings
from codequarry.serving.bundle import Bundle
from codequarry.serving.dense import FaissChannel
from codequarry.serving.engine import Engine

_OPENINGS = 2
_EXAMPLES = 3


def ask_staged(paths: BundlePaths, settings: Settings, progress: Progress) -> tuple[Check, ...]:
    """Every check of a staged version's answers; those that compare with CURRENT may be accepted by a reason.

    paths: of the staged version, whose files are those of its manifest. Writes the verdict page below the bundle root.

    Raises as `Bundle.open_paths` does: the reader cannot open the staged version.
    """
    progress("asking", 0, 3)
    manifest, root = read_manifest(paths), BundleRoot(settings.bundle.root)
    held = current_manifest(root)
    own, open_ms = _opened(paths, settings)
    with closing(own):
        checks = [_closed(own), *_ann_checks(own, paths, settings)]
        progress("asking", 1, 3)
        checks += _golden(settings, progress)
        compared = None
        if held is not None and held.digest != manifest.digest:
            other, other_ms = _opened(root.version(held.version), settings)
            with closing(other):
                compared, found = compare(own, other, (open_ms, other_ms), settings.retrieval)
            checks += found
        progress("asking", 2, 3)
    tunings = {leg.channel: read_tuning(paths.leg(leg.channel).tuning) for leg in manifest.legs}
    known = {channel: tuning for channel, tuning in tunings.items() if tuning is not None}
    write_verdict(root, Verdict(manifest.version, tuple(checks), compared, known))
    progress("asking", 3, 3)
    return tuple(checks)


def _opened(paths: BundlePaths, settings: Settings) -> tuple[Engine, float]:
    """An engine over a version, and the least of a few times that opening it took, in milliseconds."""
    current = Current(paths.path.name, file_sha256(paths.manifest))
    times: list[float] = []
    for _ in range(_OPENINGS - 1):
        started = time.perf_counter()
        bundle = Bundle.open_paths(paths, current)
        times.append(1000 * (time.perf_counter() - started))
        bundle.close()
    started = time.perf_counter()
    bundle = Bundle.open_paths(paths, current, settings.asking)
    times.append(1000 * (time.perf_counter() - started))
    return Engine(bundle, settings.asking), min(times)


def _closed(engine: Engine) -> Check:
    problems = engine.bundle.problems()
    told = tuple(f"{name}: {why}" for name, why in problems.items())
    return Check(
        "channels that the reader cannot open", not problems, ", ".join(problems) or "none", "none", told[:_EXAMPLES]
    )


def _ann_checks(engine: Engine, paths: BundlePaths, settings: Settings) -> list[Check]:
    """Recall of each dense leg that could be opened, on other questions than its tuning, where there are any."""
    checks: list[Check] = []
    limits = settings.retrieval
    asked = index_questions(paths, settings.indexes.faiss_queries + limits.ann_queries)[-limits.ann_queries :]
    for leg in engine.bundle.manifest.legs:
        channel = engine.bundle.channels.get(leg.channel)
        if not isinstance(channel, FaissChannel) or channel.problem() is not None:
            continue
        name, expected = f"recall@10 of {leg.channel} against exact search", f"at least {limits.min_ann_recall:g}"
        try:
            found, worst = ann_recall(channel, paths.leg(leg.channel), leg.encoder.dim, asked)
        except UnavailableError as error:  # a model server that was there for the chunks
            checks.append(Check(name, False, f"not measured: {error.message}", expected))
            continue
        said = f"{found:.3f} ({leg.faiss.factory}, {len(asked)} questions)"
        checks.append(Check(name, found >= limits.min_ann_recall, said, expected, tuple(worst[:_EXAMPLES])))
    return checks


def _golden(settings: Settings, progress: Progress) -> list[Check]:
    """The golden oracle pack with these tools; what passed once is not checked again."""
    if not settings.retrieval.golden:
        return []
    known = settings.paths.work / "golden.json"
    tools = hashlib.sha256(json.dumps(tool_versions(), sort_keys=True).encode()).hexdigest()
    name, expected = "golden oracle pack", "every promise kept"
    try:
        if json.loads(known.read_text(encoding="utf-8")) == {"tools": tools}:
            return [Check(name, True, "kept, when first asked with these tools", expected)]
    except (OSError, ValueError):
        pass
    made = check_golden(progress)
    broken = [f"{check.index}: {check.what}: {check.found}" for check in made if not check.kept]
    if not broken:
        write_json(known, {"tools": tools})
    return [Check(name, not broken, f"{len(broken)} of {len(made)} broken", expected, tuple(broken[:_EXAMPLES]))]
