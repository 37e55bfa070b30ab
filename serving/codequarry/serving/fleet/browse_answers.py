"""Lists and descriptions over a fleet: files, definitions, repositories and scopes of all bundles."""

from __future__ import annotations

from collections import Counter

from codequarry.schemas.wire.describe import ChannelDescription, DescribeAnswer, DescribeRequest, LanguageCount
from codequarry.schemas.wire.list_files import FILES_MAX, ListFilesAnswer, ListFilesRequest
from codequarry.schemas.wire.outline import OutlineAnswer, OutlineRequest
from codequarry.schemas.wire.overview import MAX_DETAILED, OverviewAnswer, OverviewRequest
from codequarry.schemas.wire.scope import GetScopeRequest, Scope, ScopeAnswer, SetScopeRequest, parse_scope_id
from codequarry.serving.fleet.fleet_call import FleetCall
from codequarry.serving.tools.browse.list_files import list_files
from codequarry.serving.tools.browse.outline import outline
from codequarry.serving.tools.browse.overview import overview
from codequarry.serving.tools.describe import describe_index
from codequarry.serving.tools.scopes import set_scope


def merge_outlines(call: FleetCall, request: OutlineRequest) -> OutlineAnswer:
    """Answer the tool ``outline``: files of every bundle that has the path; raises as `outline`."""
    replies = call.each(outline, request)
    answers = [answer for _, answer in replies.answers]
    files = [file for answer in answers for file in answer.files]
    return OutlineAnswer(
        files=files,
        files_total=sum(answer.files_total for answer in answers),
        total=sum(answer.total for answer in answers),
        limits=replies.limits(lambda answer: answer.files_total),
        bundle=call.info(file.uri for file in files),
    )


def merge_files(call: FleetCall, request: ListFilesRequest) -> ListFilesAnswer:
    """Answer the tool ``list_files``: by repository and path over all bundles; raises as `list_files`."""
    replies = call.each(list_files, request)
    answers = [answer for _, answer in replies.answers]
    files = sorted((file for answer in answers for file in answer.files), key=lambda file: file.uri)
    folders = sorted((folder for answer in answers for folder in answer.folders), key=lambda folder: folder.uri)
    limit, limits = min(max(request.limit, 1), FILES_MAX), replies.limits(lambda answer: answer.total)
    if (more := len(files) + len(folders) - limit) > 0:
        limits.append(f"{more} files and folders left out; raise limit, or give a folder further down")
        folders = folders[:limit]
        files = files[: limit - len(folders)]
    return ListFilesAnswer(
        files=files,
        folders=folders,
        total=sum(answer.total for answer in answers),
        limits=limits,
        bundle=call.info(one.uri for one in (*files, *folders)),
    )


def merge_overviews(call: FleetCall, request: OverviewRequest) -> OverviewAnswer:
    """Answer the tool ``overview``: repositories of all bundles by name, the first ones in full; raises as it does."""
    names = sorted(name for member in call.members for name in member.repositories)
    if not request.repos:
        request = request.model_copy(update={"repos": names[:MAX_DETAILED]})
    replies = call.each(overview, request)
    found = sorted((one for _, answer in replies.answers for one in answer.repositories), key=lambda one: one.name)
    limits = replies.limits(lambda answer: answer.repositories)
    if len(found) < len(names):
        limits.append(f"{len(found)} of {len(names)} repositories are described; name others in repos")
    return OverviewAnswer(
        repositories=found,
        repositories_total=len(names),
        limits=limits,
        bundle=call.info(f"{one.name}/" for one in found),
    )


def merge_descriptions(call: FleetCall, request: DescribeRequest) -> DescribeAnswer:
    """Answer the tool ``describe_index``: sums over all bundles; raises as `describe_index`."""
    replies = call.each(describe_index, request)
    answers = [answer for _, answer in replies.answers]
    files, chunks = Counter[str](), Counter[str]()
    for answer in answers:
        for name, count in answer.languages.items():
            files[name] += count.files
            chunks[name] += count.chunks
    repositories = sorted((one for answer in answers for one in answer.repositories), key=lambda one: one.name)
    channels: dict[str, ChannelDescription] = {}
    for answer in answers:
        for name, channel in answer.channels.items():
            if name not in channels or not channel.open:
                channels[name] = channel
    return DescribeAnswer(
        repositories=repositories,
        repositories_total=sum(answer.repositories_total for answer in answers),
        languages={name: LanguageCount(files=files[name], chunks=chunks[name]) for name in sorted(files)},
        files=sum(answer.files for answer in answers),
        skipped_files=sum(answer.skipped_files for answer in answers),
        chunks=sum(answer.chunks for answer in answers),
        age_s=max(answer.age_s for answer in answers),
        channels=channels,
        models={name: model for answer in answers for name, model in answer.models.items()},
        limits=replies.limits(lambda answer: answer.repositories),
        bundle=call.info(f"{one.name}/" for one in repositories),
    )


def merge_set_scope(call: FleetCall, request: SetScopeRequest) -> ScopeAnswer:
    """Answer the tool ``set_scope``; raises as `set_scope`."""
    replies = call.each(set_scope, request)
    answers, scope = [answer for _, answer in replies.answers], Scope.of(request)
    return ScopeAnswer(
        scope_id=scope.id(),
        scope=scope,
        files=sum(answer.files for answer in answers),
        chunks=sum(answer.chunks for answer in answers),
        limits=replies.limits(lambda answer: answer.files),
        bundle=call.info(f"{name}/" for name in scope.repos),
    )


def merge_get_scope(call: FleetCall, request: GetScopeRequest) -> ScopeAnswer:
    """Answer the tool ``get_scope``; raises as `get_scope`."""
    scope = parse_scope_id(request.scope_id)
    asked = SetScopeRequest(languages=scope.languages, include=scope.include, exclude=scope.exclude, repos=scope.repos)
    return merge_set_scope(call, asked)
