"""Operations whose result for one token does not depend on the tokens computed beside it.

A library chooses another order of summation for another number of rows: a matrix product of five
rows is not that of eight, and the last elements of an array are computed one by one where others
are computed sixteen at a time. So a token that an engine decodes with three neighbors has not the
log-probability that a learner finds for it in a whole sequence. Here every operation sees rows in
multiples of `ROWS`, and attention its keys in blocks of `KEYS`, always from the first: what fills
them up adds zeros, which change no sum. The engine and the learner both compute with these.

Float32 on CPUs, with the matrix products of MKL as torch 2.13 calls them.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 32
"""Tokens are computed in multiples of it."""
KEYS = 128
"""Keys of one block of attention."""
QUERIES = 16
"""Queries of a head are computed in multiples of it."""
MAX_QUERIES = 512
"""Queries of a head computed at once, which bounds the memory of their scores."""


def missing_rows(count: int) -> int:
    """How many rows fill ``count`` up to a multiple of `ROWS`."""
    return -count % ROWS


def linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``states`` (..., k) times ``weight`` (n, k) transposed, plus ``bias`` (n,)."""
    flat = states.reshape(-1, states.shape[-1])
    missing = missing_rows(len(flat))
    if missing:
        flat = functional.pad(flat, (0, 0, 0, missing))
    product = functional.linear(flat, weight, bias)
    return product[: len(product) - missing].reshape(*states.shape[:-1], len(weight))


def in_blocks(states: Tensor) -> Tensor:
    """Keys or values ``states`` (b, k, l, d) as m whole blocks (m, b, k, `KEYS`, d), the last one
    filled up with zeros."""
    filled = functional.pad(states, (0, 0, 0, -states.shape[2] % KEYS))
    return torch.stack(filled.split(KEYS, dim=2))


def attention(query: Tensor, keys: Tensor, values: Tensor, ends: Tensor, scale: float) -> Tensor:
    """Causal attention of the last n tokens of each of b sequences.

    ``query`` (b, h, n, d); ``keys`` and ``values`` (m, b, k, `KEYS`, d), of which the first
    ``ends`` (b,) of each sequence count: the others must be finite. h is a multiple of k (grouped
    queries). Returns (b, h, n, d).
    """
    b, h, n, d = query.shape
    k = keys.shape[2]
    groups = h // k
    places = (ends[:, None] - n + torch.arange(n)).repeat(1, groups)
    rows = query.reshape(b, k, groups * n, d)
    parts = [
        _attended(rows[:, :, part], keys, values, places[:, part], scale)
        for part in _slices(groups * n, MAX_QUERIES)
    ]
    return torch.cat(parts, dim=2).reshape(b, h, n, d)


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


def _attended(
    queries: Tensor, keys: Tensor, values: Tensor, places: Tensor, scale: float
) -> Tensor:
    """Attention of ``queries`` (b, k, r, d) at ``places`` (b, r) to whole blocks of keys.

    Blocks after the last place are left out: they would add zeros.
    """
    b, k, r, _ = queries.shape
    filled = _in_whole_queries(queries).flatten(0, 1)
    last = functional.pad(places, (0, -r % QUERIES))[:, :, None]
    seen_by_all, seen = int(places.min()) + 1, int(places.max()) + 1
    scores = []
    for start in range(0, seen, KEYS):
        block = keys[start // KEYS].flatten(0, 1)
        products = torch.bmm(filled, block.transpose(1, 2)).mul_(scale)
        if start + KEYS > seen_by_all:
            _hide(products.unflatten(0, (b, k)), last, start)
        scores.append(products)
    found = _combined(scores, lambda n, weights: torch.bmm(weights, values[n].flatten(0, 1)))
    return found.unflatten(0, (b, k))[:, :, :r]


def decoded_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    blocks: Sequence[Sequence[int]],
    ends: Sequence[int],
    scale: float,
) -> Tensor:
    """`attention` of the last token of each of b sequences, to keys and values where they lie.

    ``query`` (b, h, d); the caches are (blocks, k, `KEYS`, d), of which ``blocks`` are those of
    each sequence in their order, and what is not used must be finite. ``ends`` must ascend:
    sequences that reach a block are then the last ones. Returns (b, h, d).
    """
    b, h, d = query.shape
    k = key_cache.shape[1]
    groups = h // k
    rows = _in_whole_queries(query.view(b, k, groups, d))
    last = torch.tensor(ends)[:, None, None] - 1
    filled, scores = [], []
    for n, start in enumerate(range(0, ends[-1], KEYS)):
        first = bisect_right(ends, start)
        products = rows.new_empty(b - first, k, rows.shape[2], KEYS)
        for number, out in enumerate(products, first):
            keys = key_cache[blocks[number][n]]
            torch.bmm(rows[number], keys.transpose(1, 2), out=out)
        filled.append(products)
        # The rows that fill up stay the zeros that they are.
        scores.append(products[:, :, :groups].mul_(scale))
        _hide(scores[n], last[first:], start)

    def weigh(n: int, weights: Tensor) -> Tensor:
        found = rows.new_empty(*filled[n].shape[:-1], d)
        for number, (own, out) in enumerate(zip(filled[n], found, strict=True), b - len(weights)):
            torch.bmm(own, value_cache[blocks[number][n]], out=out)
        return found[:, :, :groups]

    return _combined(scores, weigh).reshape(b, h, d)


def _in_whole_queries(queries: Tensor) -> Tensor:
    """``queries`` (b, k, r, d), filled up with zeros to a multiple of `QUERIES` rows."""
    return functional.pad(queries, (0, 0, 0, -queries.shape[2] % QUERIES))


def _hide(products: Tensor, last: Tensor, start: int) -> None:
    """Take the keys after the places ``last`` (b, r or 1, 1) from the scores (b, k, r, `KEYS`) of
    a block that begins at ``start``."""
    hidden = torch.arange(start, start + KEYS) > last
    # Added rather than filled in: a mask that several heads share is filled in slowly.
    bias = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
    products.add_(bias[:, None])


def _combined(scores: Sequence[Tensor], weigh: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Attention by the scores (a, ..., r, `KEYS`) of each block of keys, of which a later one may
    be for the last rows alone. ``weigh`` multiplies the weights of block n with its values."""
    largest = scores[0].amax(-1, keepdim=True)
    for each in scores[1:]:
        of_these = largest[-len(each) :]
        torch.maximum(of_these, each.amax(-1, keepdim=True), out=of_these)
    weights = scores[0].sub_(largest).exp_()
    total, attended = weights.sum(-1, keepdim=True), weigh(0, weights)
    for n, each in enumerate(scores[1:], 1):
        weights = each.sub_(largest[-len(each) :]).exp_()
        total[-len(each) :] += weights.sum(-1, keepdim=True)
        attended[-len(each) :] += weigh(n, weights)
    return attended / total
