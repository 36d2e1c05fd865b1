"""The function that worker processes call to compare expressions."""

import functools
import math
import resource
import time

from services.rewards.mathematics.expressions import are_equal

MAX_MEMORY_BYTES = 4 << 30
CPU_SECONDS = 5
"""CPU time, not wall time, so that a busy machine does not make a correct answer wrong."""


def any_equal(golds: list[str], answer: str, *, ordered: bool = False) -> bool:
    """Whether an answer equals one of the golds; an unreadable one does not.

    The kernel kills the process when a comparison exceeds its CPU time or memory.
    """
    _limit_memory()
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + CPU_SECONDS, most))
    return any(_are_equal(gold, answer, ordered=ordered) for gold in golds)


def _are_equal(gold: str, answer: str, *, ordered: bool) -> bool:
    try:
        return are_equal(gold, answer, ordered=ordered)
    except (Exception, RecursionError):  # sympy raises all kinds of errors
        return False


@functools.cache
def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
