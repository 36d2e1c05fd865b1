"""Polling for a condition with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_for(probe: Callable[[], Value | None], what: str, seconds: float = 120.0) -> Value:
    """Return the first value of ``probe`` that is neither None nor False; fail at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        value = probe()
        if value is not None and value is not False:
            return value
        if late:
            raise AssertionError(f"{what}: not within {seconds:.0f} s; last seen {value!r}")
        time.sleep(0.05)
