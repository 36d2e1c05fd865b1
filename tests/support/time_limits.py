"""Time limits for programs that run until they are killed."""

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

LIMITS = (1.0, 5.0, 30.0)


def with_enough_time(run: Callable[[float], Value], had_time: Callable[[Value], bool]) -> Value:
    """The result of ``run`` under the first time limit that lets it get started.

    On a busy machine a second may be over before a program has done anything.
    """
    for seconds in LIMITS:
        value = run(seconds)
        if had_time(value):
            break
    return value
