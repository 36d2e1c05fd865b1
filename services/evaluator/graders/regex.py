"""The regex grader: a pattern of RE2's is found in the answer."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import re2

from services.contracts.errors import InvalidRequest
from services.evaluator.graders.exact import matches_any
from services.evaluator.graders.grader import Verdict

ANSWER_GROUP = "answer"
MAX_MATCHES = 10_000
"""Matches looked at in one answer. Finding one takes linear time, finding all of them up to
quadratic time; the bound keeps the longest answer of a model within seconds."""


class RegexMatch:
    """Finds the pattern in the answer.

    With a group named ``answer``, or with one group only, the group's text in the last match that
    has one is compared with the golds, as the exact grader compares. Without a group the answer is
    right when the pattern is found, whatever the golds are. Several groups of which none is named
    ``answer`` are refused. RE2's syntax has no look-around and no back-references.
    """

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        options = re2.Options()
        options.case_sensitive = not ignore_case
        options.log_errors = False
        try:
            self._pattern = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise InvalidRequest(
                f"grader.pattern is not an RE2 pattern: {_cause(error)}", param="grader.pattern"
            ) from error
        self._group = _compared_group(self._pattern)
        self._ignore_case = ignore_case

    def check_gold(self, gold: str) -> None:
        """Any text can be captured by some pattern."""

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Judge one answer; ``extracted`` is the group's text, or the first match without one."""
        # Bytes, because for text the library counts characters up to every match. A lone
        # surrogate has no UTF-8 form and becomes a question mark.
        text = answer.encode("utf-8", "replace")
        if self._group is None:
            found = self._pattern.search(text)
            return Verdict(found is not None, _decoded(found.group()) if found else None)
        captured: bytes | None = None
        for match in islice(self._pattern.finditer(text), MAX_MATCHES):
            group = match.group(self._group)
            captured = group if group is not None else captured
        if captured is None:
            return Verdict(correct=False, extracted=None)
        extracted = _decoded(captured).strip()
        return Verdict(matches_any(extracted, golds, ignore_case=self._ignore_case), extracted)


def _compared_group(pattern: Any) -> str | int | None:
    """The group that is compared with the golds; None when finding the pattern is enough."""
    if ANSWER_GROUP in pattern.groupindex:
        return ANSWER_GROUP
    if pattern.groups > 1:
        raise InvalidRequest(
            f"grader.pattern has {pattern.groups} groups; name the one to compare with the gold "
            "(?P<answer>...), and write (?:...) for the others",
            param="grader.pattern",
        )
    return 1 if pattern.groups else None


def _decoded(text: bytes) -> str:
    # A pattern may take single bytes (\C) and so cut a character in two.
    return text.decode("utf-8", "replace")


def _cause(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    return cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(error)
