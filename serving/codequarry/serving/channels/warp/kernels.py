"""Compiled inner loops of late interaction. Importing this module compiles them, or takes them from numba's cache.

Dot products are of integers: codes (|x| <= 127) or levels (< 16) with a query in `QUERY_MAX` steps, at most 128
dimensions. They stay below 2^24, so that float32 holds them exactly too, and these loops agree with
`codequarry.serving.channels.warp.query.QueryVectors` bit for bit, on every CPU.

`_products` is written in LLVM's own terms, because a compiler finds the one instruction for it
(``vpdpwssd``, ``vpmaddwd``) only in this shape: for four tokens at once, pairs of neighbouring dimensions of a token
are multiplied with those of sixteen query tokens, each a lane of a vector register. Written as nested loops it takes
eight times as long. It is plain vector arithmetic, which LLVM lowers for any CPU.

Signatures are fixed: no call compiles anything, and an array of another type is an error. The kernels index with what
they read from files, and look at every such number first: a damaged file gives wrong scores, never a wild access.
"""

# pyright: reportMissingTypeStubs=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import float32, int16, int32, int64, njit, types, uint8, uint16
from numba.extending import intrinsic

LANES = 16
"""Query tokens are padded to one or two blocks of this many."""
_TOKENS = 4
"""Document tokens multiplied at once."""
_LOWEST = -(1 << 31)


def _file(kind: Any, dimensions: int) -> types.Array:
    """Return the type of a mapped array; writable arrays fit as well."""
    return types.Array(kind, dimensions, "C", readonly=True)


def _compiled(*signatures: Any) -> Callable[[Callable[..., Any]], Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(list(signatures), cache=True, nogil=True)(function)
        except RuntimeError:  # there is no folder for compiled code that can be written
            return njit(list(signatures), nogil=True)(function)

    return decorate


def _product_loop(blocks: int) -> Any:
    """Build the loop of dot products.

    It takes tokens (4, d) int16, queries (d / 2, blocks, 32) int16, d / 2, and sums (4, blocks * 16) int32.
    """

    @intrinsic
    def products(_context, tokens, queries, pairs, sums):
        def generate(context, builder, signature, values):
            _emit_products(context, builder, signature, values, blocks)
            return context.get_dummy_value()

        return types.void(tokens, queries, pairs, sums), generate

    return products


def _emit_products(context: Any, builder: Any, signature: Any, values: Any, blocks: int) -> None:
    tokens, queries, sums = (
        context.make_array(signature.args[place])(context, builder, values[place]).data for place in (0, 1, 3)
    )
    pairs = values[2]
    i16, i32, i64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
    lane, pair, wide = ir.VectorType(i32, LANES), ir.VectorType(i16, 2 * LANES), ir.VectorType(i32, 2 * LANES)
    tokens = builder.bitcast(tokens, i32.as_pointer())
    queries = builder.bitcast(queries, pair.as_pointer())
    sums = builder.bitcast(sums, lane.as_pointer())
    entry = builder.block
    loop, done = builder.append_basic_block("pairs"), builder.append_basic_block("summed")
    builder.branch(loop)

    builder.position_at_end(loop)
    at = builder.phi(i64)
    at.add_incoming(ir.Constant(i64, 0), entry)
    held = [builder.phi(lane) for _ in range(_TOKENS * blocks)]
    for each in held:
        each.add_incoming(ir.Constant(lane, [0] * LANES), entry)
    row = builder.mul(at, ir.Constant(i64, blocks))
    asked = [
        builder.sext(builder.load(builder.gep(queries, [builder.add(row, ir.Constant(i64, block))]), align=2), wide)
        for block in range(blocks)
    ]
    nothing = ir.Constant(lane, ir.Undefined)
    evens = ir.Constant(lane, list(range(0, 2 * LANES, 2)))
    odds = ir.Constant(lane, list(range(1, 2 * LANES, 2)))
    added: list[Any] = []
    for token in range(_TOKENS):
        place = builder.add(builder.mul(pairs, ir.Constant(i64, token)), at)
        value = builder.load(builder.gep(tokens, [place]), align=2)
        first = builder.insert_element(nothing, value, ir.Constant(i32, 0))
        everywhere = builder.shuffle_vector(first, nothing, ir.Constant(lane, [0] * LANES))
        code = builder.sext(builder.bitcast(everywhere, pair), wide)
        for block in range(blocks):
            product = builder.mul(code, asked[block])
            low = builder.shuffle_vector(product, product, evens)
            high = builder.shuffle_vector(product, product, odds)
            added.append(builder.add(held[token * blocks + block], builder.add(low, high)))
    following = builder.add(at, ir.Constant(i64, 1))
    at.add_incoming(following, loop)
    for each, new in zip(held, added, strict=True):
        each.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, done)

    builder.position_at_end(done)
    for number, new in enumerate(added):
        builder.store(new, builder.gep(sums, [ir.Constant(i64, number)]), align=4)


_one_block, _two_blocks = _product_loop(1), _product_loop(2)


@njit(nogil=True)
def _products(tokens, queries, sums):  # pragma: no cover - compiled
    if queries.shape[1] == 1:
        _one_block(tokens, queries, queries.shape[0], sums)
    else:
        _two_blocks(tokens, queries, queries.shape[0], sums)


@_compiled(types.void(_file(types.int8, 2), _file(int16, 3), int32[:, ::1]))
def products(codes, queries, out):  # pragma: no cover - compiled
    """Compute dot products of many vectors with the query's tokens.

    - ``codes``: (m, d) int8
    - ``queries``: (d / 2, blocks, 32) int16, see `query.lanes`
    - ``out``: (m, blocks * 16) int32, written
    """
    count, dim = codes.shape
    tokens = np.zeros((_TOKENS, dim), np.int16)
    sums = np.empty((_TOKENS, out.shape[1]), np.int32)
    for start in range(0, count, _TOKENS):
        here = min(_TOKENS, count - start)
        for k in range(here):
            for d in range(dim):
                tokens[k, d] = codes[start + k, d]
        _products(tokens, queries, sums)
        for k in range(here):
            for i in range(out.shape[1]):
                out[start + k, i] = sums[k, i]


@_compiled(types.void(_file(types.int8, 2), _file(int64, 1), _file(int64, 1), _file(int16, 3), int32[:, ::1]))
def maxima(codes, doc_offsets, docs, queries, out):  # pragma: no cover - compiled
    """Compute the largest dot product of each query token with the tokens of each document.

    - ``codes``: (N, d) int8
    - ``docs``: (m,) int64
    - ``out``: (m, blocks * 16) int32, written
    """
    dim = codes.shape[1]
    tokens = np.zeros((_TOKENS, dim), np.int16)
    sums = np.empty((_TOKENS, out.shape[1]), np.int32)
    for n in range(len(docs)):
        low, high = doc_offsets[docs[n]], doc_offsets[docs[n] + 1]
        for i in range(out.shape[1]):
            out[n, i] = _LOWEST
        for start in range(low, high, _TOKENS):
            for k in range(_TOKENS):
                # With fewer than four tokens left, the last is repeated, which changes no maximum.
                token = min(start + k, high - 1)
                for d in range(dim):
                    tokens[k, d] = codes[token, d]
            _products(tokens, queries, sums)
            for k in range(_TOKENS):
                for i in range(out.shape[1]):
                    if sums[k, i] > out[n, i]:
                        out[n, i] = sums[k, i]


_PACKED_ARGUMENTS = (_file(int64, 1), _file(int64, 1), _file(int16, 3), float32[:, ::1], float32[::1], float32[::1])


@_compiled(
    types.void(_file(uint8, 2), _file(uint16, 1), *_PACKED_ARGUMENTS, int64, float32[:, ::1]),
    types.void(_file(uint8, 2), _file(int32, 1), *_PACKED_ARGUMENTS, int64, float32[:, ::1]),
)
def maxima_packed(
    residuals, clusters, doc_offsets, docs, queries, base, bias, step, bits, out
):  # pragma: no cover - compiled
    """Compute maxima like `maxima`, from packed residuals.

    The value of a token is ``base[cluster, i] + bias[i] + step[i] * (levels . query i)``.

    - ``residuals``: (N, d * bits / 8) uint8
    - ``clusters``: (N,)
    - ``base``: (C, blocks * 16) float32
    - ``bias``, ``step``: (blocks * 16,) float32
    - ``out``: (m, blocks * 16) float32, written
    """
    width = residuals.shape[1]
    dim = 2 * queries.shape[0]
    mask = np.int16((1 << bits) - 1)
    tokens = np.zeros((_TOKENS, dim), np.int16)
    sums = np.empty((_TOKENS, out.shape[1]), np.int32)
    for n in range(len(docs)):
        low, high = doc_offsets[docs[n]], doc_offsets[docs[n] + 1]
        for i in range(out.shape[1]):
            out[n, i] = -np.inf
        for start in range(low, high, _TOKENS):
            here = min(_TOKENS, high - start)
            for k in range(here):
                for part in range(8 // bits):
                    for w in range(width):
                        tokens[k, part * width + w] = (np.int16(residuals[start + k, w]) >> (part * bits)) & mask
            _products(tokens, queries, sums)
            for k in range(here):
                cluster = np.int64(clusters[start + k])
                if cluster < 0 or cluster >= base.shape[0]:
                    continue
                for i in range(out.shape[1]):
                    score = np.float32(base[cluster, i] + bias[i]) + np.float32(step[i] * np.float32(sums[k, i]))
                    if score > out[n, i]:
                        out[n, i] = score


@njit(nogil=True)
def _worse(score, cluster, other_score, other_cluster):  # pragma: no cover - compiled
    return score < other_score or (score == other_score and cluster > other_cluster)


@njit(nogil=True)
def _sift(best, clusters, size, score, cluster):  # pragma: no cover - compiled
    """Replace the root of a heap of that size by an entry."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _worse(best[below + 1], clusters[below + 1], best[below], clusters[below]):
            below += 1
        if not _worse(best[below], clusters[below], score, cluster):
            break
        best[place], clusters[place] = best[below], clusters[below]
        place = below
    best[place], clusters[place] = score, cluster


@njit(nogil=True)
def _missing(scores, offsets, target, best, clusters, held):  # pragma: no cover - compiled
    """Return the score of the cluster at which the best clusters hold ``target`` postings, or else the worst score."""
    seen = 0
    for k in range(held):
        seen += offsets[clusters[k] + 1] - offsets[clusters[k]]
        if seen >= target:
            return best[k]
    seen = 0
    order = np.argsort(-scores, kind="mergesort")
    for cluster in order:
        seen += offsets[cluster + 1] - offsets[cluster]
        if seen >= target:
            return scores[cluster]
    return scores[order[-1]]


@_compiled(types.void(float32[:, ::1], _file(int64, 1), int64, float32[:, ::1], int32[:, ::1], float32[::1]))
def probe(scores, offsets, target, best, clusters, missing):  # pragma: no cover - compiled
    """Run WARPSELECT (WARP, section 4.2) for every query token.

    - ``scores``: (C, lanes) float32
    - ``offsets``: (C + 1,) int64
    - ``target``: number t' of postings at which a missing score is read off
    - ``best``: (t, k) float32, written: scores of the k best clusters of each query token, descending
    - ``clusters``: (t, k) int32, written: numbers of these clusters; equal scores are ordered by number
    - ``missing``: (t,) float32, written
    """
    asked, kept = best.shape
    count = scores.shape[0]
    held = np.zeros(asked, np.int64)
    for cluster in range(count):
        for i in range(asked):
            score = scores[cluster, i]
            if held[i] == kept and not score > best[i, 0]:
                continue
            # The root of the heap is the worst entry: the lowest score, and among equals the highest number.
            if held[i] < kept:
                place = held[i]
                held[i] += 1
                while place > 0:
                    above = (place - 1) // 2
                    if not _worse(score, cluster, best[i, above], clusters[i, above]):
                        break
                    best[i, place], clusters[i, place] = best[i, above], clusters[i, above]
                    place = above
                best[i, place], clusters[i, place] = score, cluster
            else:
                _sift(best[i], clusters[i], kept, score, cluster)
    for i in range(asked):
        for end in range(held[i] - 1, 0, -1):
            score, cluster = best[i, end], clusters[i, end]
            best[i, end], clusters[i, end] = best[i, 0], clusters[i, 0]
            _sift(best[i], clusters[i], end, score, cluster)
        missing[i] = _missing(scores[:, i], offsets, target, best[i], clusters[i], held[i])


_STATE = types.Tuple((float32[::1], int32[::1], float32[::1], int32[::1], int32[::1], int32[::1]))


@njit(nogil=True)
def _start(pids, start, end, low):  # pragma: no cover - compiled
    """Return the first posting of a list whose document is at least ``low``."""
    while start < end:
        middle = (start + end) // 2
        if pids[middle] < low:
            start = middle + 1
        else:
            end = middle
    return start


@njit(nogil=True)
def _keep_best(state, document, score, stamp, low, touched):  # pragma: no cover - compiled
    best, best_stamp, _, _, list_of_touched, _ = state
    if best_stamp[document] != stamp:
        best_stamp[document] = stamp
        best[document] = score
        list_of_touched[low + touched] = document
        return touched + 1
    if score > best[document]:
        best[document] = score
    return touched


@njit(nogil=True)
def _add_token(state, missing, epoch, low, touched, found):  # pragma: no cover - compiled
    """Run the second stage of the reduction: add each touched document's best score minus the missing one."""
    best, _, total, total_stamp, list_of_touched, list_of_found = state
    for k in range(low, low + touched):
        document = list_of_touched[k]
        if total_stamp[document] != epoch:
            total_stamp[document] = epoch
            total[document] = 0
            list_of_found[low + found] = document
            found += 1
        total[document] += best[document] - missing
    return found


_RANGE = (types.boolean[::1], int64, int64, int32, int32, int64, _STATE)


@_compiled(
    int64(
        _file(int64, 1), _file(int32, 1), _file(uint8, 2), int64, int32[::1], float32[::1], _file(int16, 1), float32,
        float32, float32, *_RANGE,
    )
)  # fmt: skip
def scan_residuals(
    offsets, pids, residuals, bits, clusters, base, query, bias, step, missing,
    allowed, low, high, stamp, epoch, found, state,
):  # pragma: no cover - compiled  # fmt: skip
    """Scan the probed clusters of one query token, and return the number of documents found by now.

    Does implicit decompression and both stages of the reduction.

    - ``clusters``, ``base``: (nprobe,) int32 and float32, the probed clusters and their scores
    - ``query``: (d,) int16, for levels
    - ``bias``, ``step``: see `maxima_packed`
    - ``missing``: WARPSELECT's estimate
    - ``allowed``: (n,) bool
    - ``low``, ``high``: the documents of this call; calls for other documents may run at the same time
    - ``stamp``: new for each query token
    - ``epoch``: new for each query
    - ``found``: number of documents found so far
    - ``state``: see `warp_search.Scratch`
    """
    width = residuals.shape[1]
    mask = np.uint8((1 << bits) - 1)
    touched = 0
    for k in range(len(clusters)):
        start, end = offsets[clusters[k]], offsets[clusters[k] + 1]
        if low:
            start = _start(pids, start, end, low)
        for posting in range(start, end):
            document = pids[posting]
            if document >= high:
                break
            if document < low or not allowed[document]:
                continue
            total = np.int32(0)
            for part in range(8 // bits):
                shift = np.uint8(part * bits)
                for w in range(width):
                    level = np.int32((residuals[posting, w] >> shift) & mask)
                    total = np.int32(total + np.int32(level * np.int32(query[part * width + w])))
            score = np.float32(base[k] + bias) + np.float32(step * np.float32(total))
            touched = _keep_best(state, document, score, stamp, low, touched)
    return _add_token(state, missing, epoch, low, touched, found)


@_compiled(int64(_file(int64, 1), _file(int32, 1), int32[::1], float32[::1], float32, *_RANGE))
def scan_clusters(
    offsets, pids, clusters, base, missing, allowed, low, high, stamp, epoch, found, state
):  # pragma: no cover - compiled
    """Scan clusters like `scan_residuals`, with only the clusters' scores, for the compact profile."""
    touched = 0
    for k in range(len(clusters)):
        start, end = offsets[clusters[k]], offsets[clusters[k] + 1]
        if low:
            start = _start(pids, start, end, low)
        for posting in range(start, end):
            document = pids[posting]
            if document >= high:
                break
            if document < low or not allowed[document]:
                continue
            touched = _keep_best(state, document, base[k], stamp, low, touched)
    return _add_token(state, missing, epoch, low, touched, found)
