"""The gate that asks: a staged version is opened by the reader that will serve it, and asked what CURRENT is asked.

A delta version is asked about the files that changed. Its base was asked when it was published, and times are judged
when both become one complete version.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from codequarry.pipelines.gates.answers.comparison import compare, delays
from codequarry.pipelines.gates.answers.latency import Times, opening, searching
from codequarry.pipelines.gates.answers.verdict import Comparison, Verdict, write_verdict
from codequarry.pipelines.indexes.faiss_stage import questions as index_questions
from codequarry.pipelines.store.row_groups import arrays
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.bundle.faiss_tuning import DEPTH, read_tuning
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.settings.load import ServingSettings, Settings
from codequarry.serving.channels.base import ChannelQuery
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import current_manifest, file_sha256, read_manifest
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.version.check import Check
from codequarry.serving.version.open import Bundle

_EXAMPLES = 3
_SAME = 1e-5
"""Tolerance within which cosines are equal: any of the chunks with the same vector may be the tenth."""


def ask_staged(paths: BundlePaths, settings: Settings, progress: Progress) -> tuple[Check, ...]:
    """Ask a staged version and check its answers; a reason may accept the checks that compare with CURRENT.

    It writes the verdict page below the bundle root; when that fails, a check says so and passes.

    Args:
        paths: Paths of the staged version, whose files are those of its manifest.
        settings: Settings of the run.
        progress: Told of the steps.

    Returns:
        Every check.

    Raises:
        CodequarryError: The reader cannot open the staged version, see `Bundle.open_paths`.
    """
    progress("asking", 0, 3)
    manifest, root = read_manifest(paths), BundleRoot(settings.bundle.root)
    held = current_manifest(root)
    own = _open_engine(paths, settings.asking)
    with closing(own):
        checks = [_check_channels(own), *_ann_checks(own, paths, settings.indexes.faiss_queries, settings.retrieval)]
        progress("asking", 1, 3)
        compared = None
        if held is not None and held.digest != manifest.digest:
            before = root.version(held.version)
            limits, open_ms = settings.retrieval, None
            if manifest.stack is None:  # opening and searching over a delta is what a complete version ends
                open_ms = opening(_name_version(paths), _name_version(before), limits.max_open_ratio)
            with closing(_open_engine(before, settings.asking)) as other:
                compared, found = compare(own, other, limits)
                checks += found
                if open_ms is not None:
                    checks += delays(open_ms, _search_times(own, other, compared, limits), limits)
        progress("asking", 2, 3)
    tunings = {leg.channel: read_tuning(paths.leg(leg.channel).tuning) for leg in manifest.legs if not leg.faiss.exact}
    known = {channel: tuning for channel, tuning in tunings.items() if tuning is not None}
    checks.append(_keep_verdict(root, Verdict(manifest.version, tuple(checks), compared, known)))
    progress("asking", 3, 3)
    return tuple(checks)


def _search_times(own: Engine, other: Engine, compared: Comparison, limits: RetrievalSettings) -> Times | None:
    """Return the times of a search in two versions; None when nothing was asked."""
    queries = [question.query for question in compared.questions]
    return searching(own, other, queries, "hybrid", limits.max_latency_ratio) if queries else None


def _keep_verdict(root: BundleRoot, verdict: Verdict) -> Check:
    """Write the verdict; a failure to write it stops nothing, since no reader needs it."""
    name, expected = "verdict page", "written beside the versions"
    try:
        write_verdict(root, verdict)
    except OSError as error:
        found = f"not written: {error.strerror or type(error).__name__}"
        warning = f"the verdict of {verdict.version} was {found}; free disk space or make {root.verdicts} writable"
        return Check(name, True, found, expected, warning=warning)
    return Check(name, True, "written", expected)


def _open_engine(paths: BundlePaths, settings: ServingSettings) -> Engine:
    """Open an engine over a version."""
    return Engine(Bundle.open_paths(*_name_version(paths), settings), settings)


def _name_version(paths: BundlePaths) -> tuple[BundlePaths, Current]:
    """Return a version with the line that CURRENT would hold for it."""
    return paths, Current(paths.path.name, file_sha256(paths.manifest))


def _check_channels(engine: Engine) -> Check:
    problems = engine.bundle.problems()
    told = tuple(f"{name}: {why}" for name, why in problems.items())
    return Check(
        "channels that the reader cannot open", not problems, ", ".join(problems) or "none", "none", told[:_EXAMPLES]
    )


def _ann_checks(engine: Engine, paths: BundlePaths, tuned_on: int, limits: RetrievalSettings) -> list[Check]:
    """Check the recall of each dense index that could be opened, on questions outside its tuning when there are any.

    It was tuned on the first `tuned_on` questions.
    """
    checks: list[Check] = []
    asked = index_questions(paths, tuned_on + limits.ann_queries)[-limits.ann_queries :]
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


def ann_recall(channel: FaissChannel, paths: BundlePaths, dim: int, queries: Sequence[str]) -> tuple[float, list[str]]:
    """Measure the share of the true ten nearest chunks that a channel returns.

    A chunk counts when its own vector, as the table has it under its id, is as near as the tenth: an index with wrong
    ids or other vectors finds none.

    Args:
        channel: The channel to ask.
        paths: Paths of the version, for the channel's dense index.
        dim: Dimension of the vectors.
        queries: At least one query.

    Returns:
        The mean share, and the questions with missing chunks, worst first.
    """
    found = [channel.search(ChannelQuery(analyze_query(query), DEPTH)) for query in queries]
    vectors = np.stack([each.vector for each in found if each.vector is not None])
    best = np.full((len(queries), DEPTH), -np.inf, np.float32)
    scores = [np.full(len(each.chunk_ids), -np.inf, np.float32) for each in found]
    rows = 0
    for file in paths.table_files(paths.embeddings):
        ids, held = arrays(read_table(file).combine_chunks(), dim)
        rows += len(ids)
        compared = vectors @ held.T
        best = -np.sort(-np.hstack([best, compared]), axis=1)[:, :DEPTH]
        order = np.argsort(ids)
        for number, each in enumerate(found):
            places = np.minimum(np.searchsorted(ids, each.chunk_ids, sorter=order), len(ids) - 1)
            own = order[places]
            here = ids[own] == each.chunk_ids
            scores[number][here] = compared[number, own[here]]
    depth = min(DEPTH, rows)
    recalls = [
        min(depth, int((own >= least - _SAME).sum())) / depth
        for own, least in zip(scores, best[:, depth - 1], strict=True)
    ]
    worst = sorted(zip(recalls, queries, strict=True))
    return float(np.mean(recalls)), [f"{query!r} {recall:.1f}" for recall, query in worst if recall < 1]
