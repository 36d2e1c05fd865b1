"""DAPO's soft punishment of long answers. Needs no torch: the coordinator shapes rewards."""


def overlong_penalty(length: int, max_length: int, buffer: int, factor: float = 1.0) -> float:
    """What is added to the reward of a response of ``length`` tokens.

    0 up to ``max_length - buffer``, falling in a line to -``factor`` at ``max_length``.
    """
    excess = length - (max_length - buffer)
    return -factor * min(max(excess / buffer, 0.0), 1.0)
