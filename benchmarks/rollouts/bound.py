"""Lower bounds on the time of a batch of conversations."""

import heapq
from collections.abc import Sequence


def least_seconds(durations: Sequence[float], in_flight: int) -> float:
    """No schedule of ``durations`` in so many places is shorter than this: either all places are
    busy all the time, or one conversation takes that long."""
    return max(sum(durations) / in_flight, *durations)


def greedy_seconds(durations: Sequence[float], in_flight: int) -> float:
    """When the last one ends if each begins, in this order, as soon as a place is free."""
    places = [0.0] * in_flight
    for duration in durations:
        heapq.heapreplace(places, places[0] + duration)
    return max(places)
