"""Questions put to the engine as any caller would, and what came back in the terms of the evaluation."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codequarry.pipelines.evaluation.records import Hit, Question
from codequarry.pipelines.evaluation.results import Run
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.layout import BundleRoot, Current
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import TOP_K_MAX, Channel, SearchAnswer, SearchRequest
from codequarry.serving.bundle import Bundle
from codequarry.serving.engine import Engine
from codequarry.serving.trace import Trace, tracing

_WARM_UP = 3


@contextmanager
def engine_over(root: Path, settings: ServingSettings, version: str = "") -> Iterator[Engine]:
    """An engine over the version that CURRENT names, or over another, which follows nothing.

    Raises NoBundleError: nothing is published. NotFoundError: there is no such version. Raises as
    `Bundle.open_current` besides.
    """
    bundle = open_version(root, version, settings) if version else Bundle.open_current(root, settings)
    engine = Engine(bundle, settings)
    try:
        yield engine
    finally:
        engine.close()


class Asker:
    """Asks one engine; remembers how long its chunks are."""

    def __init__(self, engine: Engine, depth: int = TOP_K_MAX) -> None:
        """depth: results asked for."""
        self._engine = engine
        self._depth = depth
        self._chars: dict[str, int] = {}

    def ask(
        self,
        name: str,
        questions: Sequence[Question],
        channel: Channel,
        show: Callable[[int], None],
    ) -> Run:
        """Ask every question, one after another, after a few that are not counted.

        name: of the run. show: called with the number of questions answered.

        Raises as `Engine.search`.
        """
        hits: list[tuple[Hit, ...]] = []
        spent: list[float] = []
        stages: dict[str, list[float]] = defaultdict(list)
        limits: dict[str, None] = {}
        channels: set[str] = set()
        for question in questions[:_WARM_UP]:
            self._search(question.query, channel)
        for done, question in enumerate(questions, start=1):
            with tracing(Trace(run_id="", tool="search")) as trace:
                started = time.perf_counter()
                answer = self._search(question.query, channel)
                spent.append(1000 * (time.perf_counter() - started))
            hits.append(self.hits(answer))
            limits |= dict.fromkeys(answer.limits)
            channels.update(name for result in answer.results for name in result.metadata.explain.channels)
            for stage, seconds in trace.stages.items():
                stages[stage].append(1000 * seconds)
            show(done)
        told = {stage: tuple(each) for stage, each in stages.items()}
        return Run(name, tuple(hits), tuple(spent), told, frozenset(channels), tuple(limits))

    def hits(self, answer: SearchAnswer) -> tuple[Hit, ...]:
        """The results of an answer, with the length of their whole chunks."""
        unknown = [int(result.id) for result in answer.results if result.id not in self._chars]
        for chunk_id, (_, text) in self._engine.bundle.catalog.texts(unknown).items():
            self._chars[str(chunk_id)] = len(text)
        return tuple(
            Hit(
                *split_uri(result.metadata.uri), result.metadata.start_line, result.metadata.end_line,
                self._chars[result.id], result.id,
            )
            for result in answer.results
        )  # fmt: skip

    def _search(self, query: str, channel: Channel) -> SearchAnswer:
        return self._engine.search(SearchRequest(query=query, top_k=self._depth, channel=channel))


def open_version(root: Path, version: str, settings: ServingSettings | None = None) -> Bundle:
    """Open a published version by its name, by ``current``, or by ``previous``: the one before the current one.

    settings: as of `Bundle.open_current`.

    Raises NotFoundError: there is no such version. Raises as `Bundle.open_current` besides.
    """
    bundle_root = BundleRoot(root)
    name = version_called(bundle_root, version)
    paths = bundle_root.published(name)
    return Bundle.open_version(bundle_root, Current(name, file_sha256(paths.manifest)), settings)


def version_called(root: BundleRoot, given: str) -> str:
    """The name of a version that may be given as ``current`` or ``previous``.

    Raises NoBundleError: nothing is published. NotFoundError: there is none before the current one.
    """
    if given not in ("current", "previous"):
        return given
    current = root.read_current().version
    older = [name for name in root.version_names() if name < current]
    if given == "previous" and not older:
        raise NotFoundError(
            f"no version before the current one, {current}", suggestion="name one that `codequarry versions` lists"
        )
    return current if given == "current" else older[-1]


def split_uri(uri: str) -> tuple[str, str]:
    """Repository and path.

    >>> split_uri("app/src/io.py")
    ('app', 'src/io.py')
    """
    repo, _, path = uri.partition("/")
    return repo, path
