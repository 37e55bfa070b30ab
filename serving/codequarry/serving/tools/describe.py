"""Tool ``describe_index``: the content of the served version, from its manifest and its directory."""

from __future__ import annotations

from collections import defaultdict

from codequarry.schemas.bundle.manifest import SourceEntry
from codequarry.schemas.times import age_s
from codequarry.schemas.wire.describe import (
    MAX_REPOSITORIES,
    ChannelDescription,
    DescribeAnswer,
    DescribeRequest,
    EncoderDescription,
    IndexerCoverage,
    LanguageCount,
    RepositoryDescription,
)
from codequarry.schemas.wire.search import FileFilters
from codequarry.serving.catalog import present
from codequarry.serving.catalog.filters import allowed_files
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.version.open import Bundle

Languages = dict[str, LanguageCount]


def describe_index(context: ToolContext, request: DescribeRequest) -> DescribeAnswer:
    """Describe the indexed corpus.

    Args:
        context: The version.
        request: Repository to describe, if any.

    Returns:
        The description.

    Raises:
        InvalidArgumentError: The repository does not exist.
    """
    bundle = context.bundle
    allowed_files(FileFilters(repos=request.repos), bundle.directory)
    manifest, limits = bundle.manifest, list[str]()
    wanted = set(request.repos)
    sources = sorted((one for one in manifest.sources if not wanted or one.name in wanted), key=lambda one: one.name)
    if len(sources) > MAX_REPOSITORIES:
        limits.append(f"the first {MAX_REPOSITORIES} of {len(sources)} repositories are described; name others")
        sources = sources[:MAX_REPOSITORIES]
    by_repo, whole = _languages(bundle)
    problems = bundle.problems()
    return DescribeAnswer(
        repositories=[_repository(source, by_repo.get(source.name, {})) for source in sources],
        repositories_total=len(manifest.sources),
        languages=whole,
        files=manifest.counts.files,
        skipped_files=manifest.counts.skipped_files,
        chunks=manifest.counts.chunks,
        age_s=age_s(manifest.created),
        channels={
            name: ChannelDescription(
                open=name not in problems,
                source=bundle.channels[name].source if name not in problems else "",
                reason=problems.get(name, ""),
            )
            for name in sorted({*bundle.channels, *problems})
        },
        models={
            leg.channel: EncoderDescription(
                name=leg.encoder.name, dim=leg.encoder.dim, fingerprint=leg.encoder.fingerprint
            )
            for leg in manifest.legs
        },
        refs=context.refs(),
        limits=limits,
        bundle=bundle.info,
    )


def _languages(bundle: Bundle) -> tuple[dict[str, Languages], Languages]:
    """Count files and chunks by repository and language, and by language."""
    directory = bundle.directory
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    chunks = directory.chunk_counts.tolist()
    # Files without a chunk were skipped; the table of files has them only for the reason.
    for repo, lang, found in zip(directory.repos, directory.langs, chunks, strict=True):
        if found:
            count = counts[repo][lang or "text"]
            count[0] += 1
            count[1] += found
    whole: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for languages in counts.values():
        for lang, (files, held) in languages.items():
            whole[lang][0] += files
            whole[lang][1] += held
    return {repo: _sorted(languages) for repo, languages in counts.items()}, _sorted(whole)


def _sorted(counts: dict[str, list[int]]) -> Languages:
    return {lang: LanguageCount(files=counts[lang][0], chunks=counts[lang][1]) for lang in sorted(counts)}


def _repository(source: SourceEntry, languages: Languages) -> RepositoryDescription:
    skipped = sum(source.skipped.values())
    return RepositoryDescription(
        name=source.name,
        commit=source.revision,
        url=present.one_line(source.url, 500),
        ref=present.one_line(source.ref),
        files=source.files,
        chunks=source.chunks,
        coverage=round(source.files / (source.files + skipped), 4) if source.files else 0.0,
        skipped=dict(sorted(source.skipped.items())),
        secrets_looked_for=source.secrets is not None,
        secrets=dict(sorted((source.secrets or {}).items())),
        classes=dict(sorted(source.classes.items())),
        languages=languages,
        scip=[
            IndexerCoverage(
                indexer=present.one_line(entry.label),
                status=entry.status,
                reason=present.one_line(entry.reason, 500),
                coverage=round(entry.coverage, 4),
            )
            for entry in source.scip
        ],
    )
