"""Lower bounds on the time of a batch of conversations."""

import heapq
from collections.abc import Sequence


def least_seconds(durations: Sequence[float], in_flight: int) -> float:
    """Return a lower bound on any schedule of ``durations`` in that many slots: either all slots
    are always busy, or one conversation takes that long."""
    return max(sum(durations) / in_flight, *durations)


def greedy_seconds(durations: Sequence[float], in_flight: int) -> float:
    """Return the makespan if each starts, in this order, as soon as a slot is free."""
    places = [0.0] * in_flight
    for duration in durations:
        heapq.heapreplace(places, places[0] + duration)
    return max(places)
