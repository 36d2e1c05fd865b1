"""A tool that is a Python function, and not a good one."""

import os
import random


def double(value: int) -> int:
    """Twice a number; one call of five ends the process instead."""
    if random.random() < 0.2:
        os._exit(1)
    return 2 * value
