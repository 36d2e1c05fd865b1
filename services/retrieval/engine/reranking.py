"""Ordering what was found anew, by a score that takes longer and is better."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from services.contracts.errors import ConfigurationError, Unavailable
from services.retrieval.encoder.client import EncoderClient
from services.retrieval.store.query import Hit

CANDIDATES = 50
"""How many of a query's passages are looked at again, unless more are asked for."""


async def reranked(
    encoder: EncoderClient,
    queries: Sequence[str],
    hits: Sequence[Sequence[Hit]],
    deadline: float,
) -> list[list[Hit]]:
    """The hits of each query with the encoder's scores, best first; equal ones keep their order.

    Raises `Unavailable` when the encoder is not to be had, and what it raises.
    """
    try:
        scores = await asyncio.gather(
            *(
                encoder.score(query, [_contents(hit) for hit in found], deadline=deadline)
                for query, found in zip(queries, hits, strict=True)
            )
        )
    except ConfigurationError as error:
        raise Unavailable(error.message, code=error.code) from error
    return [
        _by_score(found, of_query.tolist()) for found, of_query in zip(hits, scores, strict=True)
    ]


def _contents(hit: Hit) -> str:
    return str(json.loads(hit.document)["contents"])


def _by_score(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    order = sorted(range(len(hits)), key=lambda n: -scores[n])
    return [replace(hits[n], score=scores[n]) for n in order]
