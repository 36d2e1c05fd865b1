"""Operations whose result for one token does not depend on the tokens computed beside it.

A library chooses another order of summation for another number of rows: a matrix product of five
rows is not that of eight, and the last elements of an array are computed one by one where others
are computed sixteen at a time. So a token that an engine decodes with three neighbors has not the
log-probability that a learner finds for it in a whole sequence. Here every operation sees rows in
multiples of `ROWS`, and attention its keys in blocks of `KEYS`, always from the first: what fills
them up adds zeros, which change no sum. The engine and the learner both compute with these.

Float32 on CPUs, with the matrix products of MKL as torch 2.13 calls them.
"""

from collections.abc import Iterator

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
    b, k, r, d = queries.shape
    missing = -r % QUERIES
    filled = functional.pad(queries, (0, 0, 0, missing)).reshape(b * k, r + missing, d)
    last = functional.pad(places, (0, missing))[:, :, None]
    seen_by_all, seen = int(places.min()) + 1, int(places.max()) + 1
    scores = []
    for start in range(0, seen, KEYS):
        block = keys[start // KEYS].flatten(0, 1)
        products = torch.bmm(filled, block.transpose(1, 2)).mul_(scale)
        if start + KEYS > seen_by_all:
            hidden = torch.arange(start, start + KEYS) > last
            # Added rather than filled in: a mask that several heads share is filled in slowly.
            bias = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
            products.unflatten(0, (b, k)).add_(bias[:, None])
        scores.append(products)
    largest = torch.stack([each.amax(-1) for each in scores]).amax(0)[:, :, None]
    total = torch.zeros_like(largest)
    attended = torch.zeros_like(filled)
    for each, block in zip(scores, values, strict=False):
        weights = each.sub_(largest).exp_()
        total += weights.sum(-1, keepdim=True)
        attended += torch.bmm(weights, block.flatten(0, 1))
    return (attended / total).reshape(b, k, r + missing, d)[:, :, :r]
