"""Lets equal answers of an item vote together, by the equality of the benchmark's grader."""

import asyncio
from itertools import islice

from services.core.process.reporter import Reporter
from services.metrics.repeated import RepeatedSamples
from services.rewards.interface import ComparesAnswers

MOST_ANSWERS = 24
"""Answers of an item that are compared, the most frequent ones: in 276 pairs at most."""
MOST_EXCEEDED = 3
"""Comparisons of an item that exceed their limits before its other pairs are left uncompared."""
MOST_EXCEEDED_IN_ALL = 50
"""The same of a benchmark, before its other items are left uncompared."""
AT_ONCE = 4


async def unite_votes(
    repeated: RepeatedSamples, grader: ComparesAnswers, reporter: Reporter
) -> None:
    """Compare the answers of each item whose majority depends on it.

    Pairs are compared in an order that the samples' order does not change, and bounded in number:
    what is left uncompared, or exceeds the limits of a comparison, is unequal. A message says how
    many comparisons exceeded them.
    """
    exceeded = 0
    for item, texts in repeated.disputed(MOST_ANSWERS):
        if exceeded >= MOST_EXCEEDED_IN_ALL:
            break
        equal, failed = await _equal_pairs(texts, grader, reporter)
        repeated.unite(item, equal)
        exceeded += failed
    if exceeded:
        reporter.message(
            f"{exceeded} comparisons of answers exceeded their limits; "
            "what was not compared votes apart",
            level="warn",
        )


async def _equal_pairs(
    texts: list[str], grader: ComparesAnswers, reporter: Reporter
) -> tuple[list[tuple[str, str]], int]:
    """The equal pairs, and how many comparisons exceeded their limits."""
    pairs = ((texts[one], texts[other]) for other in range(len(texts)) for one in range(other))
    equal: list[tuple[str, str]] = []
    exceeded = 0
    while exceeded < MOST_EXCEEDED and (compared := list(islice(pairs, AT_ONCE))):
        verdicts = await asyncio.gather(*(grader.are_equal(*pair) for pair in compared))
        reporter.tick()
        equal += [pair for pair, verdict in zip(compared, verdicts, strict=True) if verdict]
        exceeded += verdicts.count(None)
    return equal, exceeded
