"""Questions asked of the engine as any caller would, and its answers in the terms of the evaluation."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from codequarry.pipelines.measure.questions import Hit, Question
from codequarry.pipelines.measure.results import Run
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import TOP_K_MAX, Channel, SearchAnswer, SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import file_sha256
from codequarry.serving.files.version_order import versions_before
from codequarry.serving.request.trace import Trace, tracing
from codequarry.serving.version.open import Bundle

_WARM_UP = 3


@contextmanager
def engine_over(root: Path, settings: ServingSettings, version: str = "") -> Iterator[Engine]:
    """Open an engine over the version that CURRENT names, or over another, which follows nothing.

    Args:
        root: Bundle root.
        settings: Settings of the service.
        version: Name of another version; "" for CURRENT.

    Yields:
        The engine.

    Raises:
        NoBundleError: Nothing is published.
        NotFoundError: There is no such version.
        CodequarryError: As `Bundle.open_current` does.
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
        """Set up the questions' engine and depth.

        Args:
            engine: Engine to ask.
            depth: Number of results asked for.
        """
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

        Args:
            name: Name of the run.
            questions: Questions to ask.
            channel: Channel to search.
            show: Called with the number of questions answered.

        Returns:
            The answers and times.

        Raises:
            CodequarryError: As `Engine.search` does.
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
        """Return the results of an answer, with the length of their whole chunks."""
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
        return self._engine.search(SearchRequest(query=query, top_k=self._depth, channel=channel, explain=True))


def open_version(root: Path, version: str, settings: ServingSettings | None = None) -> Bundle:
    """Open a published version by its name, by ``current``, or by ``previous``: the one before the current one.

    Args:
        root: Bundle root.
        version: Name of the version.
        settings: Settings of the service, as for `Bundle.open_current`.

    Returns:
        The opened version.

    Raises:
        NotFoundError: There is no such version.
        CodequarryError: As `Bundle.open_current` does.
    """
    bundle_root = BundleRoot(root)
    name = version_called(bundle_root, version)
    paths = bundle_root.published(name)
    return Bundle.open_version(bundle_root, Current(name, file_sha256(paths.manifest)), settings)


def version_called(root: BundleRoot, given: str) -> str:
    """Return the name of a version that may be given as ``current`` or ``previous``.

    Args:
        root: Bundle root.
        given: Name, ``current`` or ``previous``.

    Returns:
        The name; a given name is not checked.

    Raises:
        NoBundleError: Nothing is published.
        NotFoundError: There is no version before the current one.
    """
    if given not in ("current", "previous"):
        return given
    current = root.read_current().version
    older = versions_before(root, current)
    if given == "previous" and not older:
        raise NotFoundError(
            f"no version before the current one, {current}", suggestion="name one that `codequarry versions` lists"
        )
    return current if given == "current" else older[-1]


def split_uri(uri: str) -> tuple[str, str]:
    """Split a URI into repository and path.

    >>> split_uri("app/src/io.py")
    ('app', 'src/io.py')
    """
    repo, _, path = uri.partition("/")
    return repo, path
