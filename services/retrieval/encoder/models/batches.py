"""Cutting texts into batches of like lengths."""

from collections.abc import Iterator, Sequence

Batch = list[int]
"""Positions of texts, from the shortest to the longest."""


def by_length(lengths: Sequence[int], *, most_tokens: int, most_rows: int) -> Iterator[Batch]:
    """All positions of ``lengths``, the short ones first, in batches that hold no more than
    ``most_rows`` texts and, when each text is as long as the longest of its batch, no more than
    ``most_tokens`` tokens (but always one text).
    """
    batch: Batch = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens = (len(batch) + 1) * lengths[position]
        if batch and (len(batch) == most_rows or tokens > most_tokens):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def runs(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of equal values in sorted ``lengths``: how many there are, and the value."""
    begin = 0
    for position in range(1, len(lengths) + 1):
        if position == len(lengths) or lengths[position] != lengths[begin]:
            yield position - begin, lengths[begin]
            begin = position
