"""A tool that is an unreliable Python function."""

import os
import random


def double(value: int) -> int:
    """Return twice a number; one call in five kills the process instead."""
    if random.random() < 0.2:
        os._exit(1)
    return 2 * value
