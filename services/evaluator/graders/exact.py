"""The exact grader: the answer is a gold, character by character."""

from collections.abc import Sequence

from services.evaluator.graders.grader import Verdict


class ExactMatch:
    """Compares after stripping outer white space; ``ignore_case`` folds case as Unicode does.

    Nothing else is normalised: an accent written as one code point differs from the same accent
    written as two.
    """

    def __init__(self, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case

    def check_gold(self, gold: str) -> None:
        """Any text can be answered, the empty one too."""

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Judge the whole answer; ``extracted`` is the stripped answer as it was written."""
        stripped = answer.strip()
        return Verdict(matches_any(stripped, golds, ignore_case=self._ignore_case), stripped)


def matches_any(text: str, golds: Sequence[str], *, ignore_case: bool) -> bool:
    """Whether a text equals one of the golds once all are stripped, and case-folded if asked."""
    if ignore_case:
        folded = text.strip().casefold()
        return any(gold.strip().casefold() == folded for gold in golds)
    stripped = text.strip()
    return any(gold.strip() == stripped for gold in golds)
