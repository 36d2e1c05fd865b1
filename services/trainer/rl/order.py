"""The order in which prompts are drawn: every one once, shuffled, before any comes again."""

import random


class PromptOrder:
    """Maps the number of a draw, counted from 0, to a row; the same for the same seed."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows = rows
        self._seed = seed
        self._epoch = -1
        self._shuffled: list[int] = []

    @property
    def rows(self) -> int:
        """How many prompts there are."""
        return self._rows

    def row(self, draw: int) -> int:
        """The row of a draw."""
        epoch, place = divmod(draw, self._rows)
        if epoch != self._epoch:
            self._shuffled = list(range(self._rows))
            random.Random(f"{self._seed}:{epoch}").shuffle(self._shuffled)  # noqa: S311 - no secret
            self._epoch = epoch
        return self._shuffled[place]
