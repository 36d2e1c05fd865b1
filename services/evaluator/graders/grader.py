"""What every grader is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the answer is right, and what of it was compared (None: nothing to compare)."""

    correct: bool
    extracted: str | None


class Grader(Protocol):
    """Judges answers; safe to share between samples."""

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when no answer could ever match this gold."""

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Judge one answer; it is right when it matches any of the golds. Never raises."""
