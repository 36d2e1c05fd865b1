"""The function that a process of its own calls to compare expressions."""

import functools
import math
import resource
import time

from services.rewards.mathematics.expressions import are_equal

LARGEST_BYTES = 4 << 30
COMPUTING_SECONDS = 5
"""Of the processor, not of a clock: on a busy machine a right answer is right, too."""


def any_equal(golds: list[str], answer: str) -> bool:
    """Whether an answer means the same as one of the golds; what cannot be read does not.

    The kernel ends the process when comparing takes too much.
    """
    _limit_memory()
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (math.ceil(time.process_time()) + COMPUTING_SECONDS, most)
    )
    return any(_are_equal(gold, answer) for gold in golds)


def _are_equal(gold: str, answer: str) -> bool:
    try:
        return are_equal(gold, answer)
    except (Exception, RecursionError):  # sympy raises whatever it likes for what it cannot do
        return False


@functools.cache
def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_BYTES, LARGEST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
