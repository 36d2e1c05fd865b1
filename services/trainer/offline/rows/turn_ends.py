"""The special tokens that end what a model learns to write: it stops at them when it is served."""

from collections.abc import Collection


class TurnEnds:
    """Collects the special tokens at the ends of texts.

    A template may end turns differently, as GLM's do: calls with the marker of their results,
    answers with that of the user's next turn.
    """

    def __init__(self, special: Collection[str]) -> None:
        self.found: list[str] = []
        self._special = frozenset(each for each in special if each)
        self._lengths = sorted({len(each) for each in self._special}, reverse=True)

    def add(self, text: str) -> None:
        """Collect the longest special token that the text ends with, if it does."""
        ends = (text[-length:] for length in self._lengths)
        end = next((each for each in ends if each in self._special), None)
        if end is not None and end not in self.found:
            self.found.append(end)
