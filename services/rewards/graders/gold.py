"""Graders that compare an answer with the golds of its row, without a model or a template."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, Protocol

import re2

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import (
    BoxedIntegerGrader,
    ChoiceGrader,
    ExactGrader,
    GoldGrader,
    NumericGrader,
    RegexGrader,
    ToolCallsGrader,
)
from services.metrics.extraction import ExtractionOutcome, extract_json
from services.metrics.tool_call_rows import calls_of, predict
from services.metrics.tool_calls import Calls, Comparison, InvalidCalls, as_text
from services.metrics.tool_calls import Sample as CallSample
from services.rewards.answers.boxes import last_box
from services.rewards.answers.choices import LETTERS, option_of
from services.rewards.answers.numbers import stated_number
from services.rewards.answers.numerals import ARITHMETIC, has_number, integer_of
from services.rewards.interface import RewardFailed, Sample, Score


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the answer is correct, and the part that was compared (None: there was none).

    ``vote`` is the normal form of that part where it is another text: answers with the same one
    have the same grade.
    """

    correct: bool
    extracted: str | None
    vote: str | None = field(default=None, compare=False)


class Matcher(Protocol):
    """Compares answers with golds; safe to share between samples."""

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when no answer could ever match this gold."""

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade one answer; it is correct when it matches any of the golds. Never raises."""


def matcher(settings: GoldGrader, param: str = "grader") -> Matcher:
    """Build the matcher of the grader in the field ``param``; raises ``InvalidRequest``."""
    match settings:
        case ExactGrader():
            return ExactMatch(ignore_case=settings.ignore_case)
        case RegexGrader():
            return RegexMatch(settings.pattern, ignore_case=settings.ignore_case, param=param)
        case NumericGrader():
            return NumericMatch(
                absolute_tolerance=settings.absolute_tolerance,
                relative_tolerance=settings.relative_tolerance,
            )
        case BoxedIntegerGrader():
            return BoxedIntegerMatch()
        case ChoiceGrader():
            return ChoiceMatch(settings.options)
        case ToolCallsGrader():
            return ToolCallMatch(settings.path, Comparison(strict_types=settings.strict_types))


class GoldMatch:
    """1 when the final answer matches a gold of its row, else 0."""

    def __init__(self, settings: GoldGrader) -> None:
        self._matcher = matcher(settings)

    async def score(self, sample: Sample) -> Score:
        """Compare the model's last turn, without its reasoning."""
        if not sample.gold:
            raise RewardFailed("the row has no gold")
        try:
            for gold in sample.gold:
                self._matcher.check_gold(gold)
        except InvalidRequest as error:
            raise RewardFailed(error.message) from error
        verdict = self._matcher.grade(sample.answer, sample.gold)
        return Score(float(verdict.correct), extracted=verdict.extracted, vote=verdict.vote)

    async def are_equal(self, one: str, other: str) -> bool | None:
        """Whether each of two answers is right where the other is the gold; see
        `ComparesAnswers`."""
        grade = self._matcher.grade
        return grade(one, [other]).correct and grade(other, [one]).correct


class ExactMatch:
    """Compares after stripping outer white space; ``ignore_case`` folds case as Unicode does.

    Nothing else is normalized: an accent written as one code point differs from the same accent
    written as two.
    """

    def __init__(self, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case

    def check_gold(self, gold: str) -> None:
        """Any gold can be matched, including the empty text."""

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade the whole answer; ``extracted`` is the stripped answer as written."""
        stripped = answer.strip()
        correct = matches_any(stripped, golds, ignore_case=self._ignore_case)
        return Verdict(correct, stripped, stripped.casefold() if self._ignore_case else None)


def matches_any(text: str, golds: Sequence[str], *, ignore_case: bool) -> bool:
    """Whether a text equals one of the golds after stripping and, if configured, case folding."""
    if ignore_case:
        folded = text.strip().casefold()
        return any(gold.strip().casefold() == folded for gold in golds)
    stripped = text.strip()
    return any(gold.strip() == stripped for gold in golds)


ANSWER_GROUP = "answer"
MAX_MATCHES = 10_000
"""Matches examined per answer: finding one is linear, finding all of them up to quadratic."""


class RegexMatch:
    """Finds the pattern in the answer.

    With a group named ``answer``, or with one group only, the group's text in the last match that
    has one is compared with the golds, as the exact grader compares. Without a group the answer is
    correct when the pattern is found, regardless of the golds. Several groups, none of them named
    ``answer``, are rejected. RE2 has no look-around and no back-references.
    """

    def __init__(self, pattern: str, *, ignore_case: bool, param: str = "grader") -> None:
        options = re2.Options()
        options.case_sensitive = not ignore_case
        options.log_errors = False
        try:
            self._pattern = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            message = f"not an RE2 pattern: {_cause(error)}"
            raise InvalidRequest(message, param=f"{param}.pattern") from error
        self._group = _compared_group(self._pattern, f"{param}.pattern")
        self._ignore_case = ignore_case

    def check_gold(self, gold: str) -> None:
        """Any gold can be captured by some pattern."""

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade one answer; ``extracted`` is the group's text, or the first match without one."""
        # Bytes, because for text the library counts characters up to every match. A lone
        # surrogate has no UTF-8 form and becomes a question mark.
        text = answer.encode("utf-8", "replace")
        if self._group is None:
            found = self._pattern.search(text)
            return Verdict(found is not None, _decode(found.group()) if found else None)
        captured: bytes | None = None
        for match in islice(self._pattern.finditer(text), MAX_MATCHES):
            group = match.group(self._group)
            captured = group if group is not None else captured
        if captured is None:
            return Verdict(correct=False, extracted=None)
        extracted = _decode(captured).strip()
        correct = matches_any(extracted, golds, ignore_case=self._ignore_case)
        return Verdict(correct, extracted, extracted.casefold() if self._ignore_case else None)


def _compared_group(pattern: Any, param: str) -> str | int | None:
    """The group to compare with the golds; None when finding the pattern is enough."""
    if ANSWER_GROUP in pattern.groupindex:
        return ANSWER_GROUP
    if pattern.groups > 1:
        raise InvalidRequest(
            f"has {pattern.groups} groups; name the one to compare with the gold "
            "(?P<answer>...), and write (?:...) for the others",
            param=param,
        )
    return 1 if pattern.groups else None


def _decode(text: bytes) -> str:
    # A pattern may take single bytes (\C) and so cut a character in two.
    return text.decode("utf-8", "replace")


def _cause(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    return cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(error)


MAX_ZEROS = 30
"""At the end of a number that votes; more are written as an exponent."""


class NumericMatch:
    """Correct when ``|number - gold| <= max(absolute, relative * |gold|)``, in decimals."""

    def __init__(self, *, absolute_tolerance: float, relative_tolerance: float) -> None:
        # Through their shortest text: 0.01 means one hundredth, not its neighbor in binary.
        self._absolute = Decimal(str(absolute_tolerance))
        self._relative = Decimal(str(relative_tolerance))

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when the gold contains no number, or states no single one."""
        if stated_number(gold) is None:
            what = "states no single number" if has_number(gold) else "contains no number"
            raise InvalidRequest(f"the gold {gold[:80]!r} {what}", param="gold")

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade the number that the answer states; ``extracted`` is the number in ASCII."""
        number = stated_number(answer)
        if number is None:
            return Verdict(correct=False, extracted=None)
        written, value = number
        return Verdict(any(self._equal(value, gold) for gold in golds), written, _shortest(value))

    def _equal(self, value: Decimal, gold: str) -> bool:
        number = stated_number(gold)
        if number is None:
            return False
        expected = number[1]
        if value == expected:
            return True
        difference = ARITHMETIC.subtract(value, expected).copy_abs()
        relative = ARITHMETIC.multiply(self._relative, expected.copy_abs())
        return difference <= max(self._absolute, relative)


def _shortest(value: Decimal) -> str:
    """A number in a form that equal numbers share, of all its digits: 18.00 is 18, and 1E+1 10."""
    sign, digits, exponent = value.as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    shortened = written.rstrip("0")
    if not shortened or not isinstance(exponent, int):
        return "0"
    exponent += len(written) - len(shortened)
    zeros = "0" * exponent if 0 < exponent <= MAX_ZEROS else ""
    power = f"e{exponent}" if exponent and not zeros else ""
    return f"{'-' if sign else ''}{shortened}{zeros}{power}"


class BoxedIntegerMatch:
    """Compares the integer in the last closed box; another box holds none."""

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when the gold is not an integer of at most 18 digits."""
        if integer_of(gold) is None:
            raise InvalidRequest(f"the gold {gold[:80]!r} is not an integer", param="gold")

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade the last box; ``extracted`` is its integer in its shortest form."""
        box = last_box([answer])
        value = None if box is None else integer_of(box)
        if value is None:
            return Verdict(correct=False, extracted=None)
        return Verdict(value in map(integer_of, golds), str(value))


class ChoiceMatch:
    """Compares the letter of the option that the answer names."""

    def __init__(self, options: int) -> None:
        self._letters = LETTERS[:options]

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when the gold is neither a letter nor a position from 0."""
        if self._gold(gold) is None:
            message = f"the gold {gold[:80]!r} is not an option from A to {self._letters[-1]}"
            raise InvalidRequest(message, param="gold")

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade one answer; ``extracted`` is the letter."""
        letter = option_of(answer, self._letters)
        wanted = {self._gold(gold) for gold in golds}
        return Verdict(letter is not None and letter in wanted, letter)

    def _gold(self, gold: str) -> str | None:
        gold = gold.strip().upper()
        if gold.isdecimal() and gold.isascii() and int(gold[:3]) < len(self._letters):
            return self._letters[int(gold[:3])]
        return gold if len(gold) == 1 and gold in self._letters else None


class ToolCallMatch:
    """Correct when the answer states the gold's calls, compared as multisets."""

    def __init__(self, path: str, comparison: Comparison) -> None:
        self._path = path
        self._comparison = comparison

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when the gold is not a list of calls in JSON."""
        self._gold(gold)

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Grade one answer; ``extracted`` are its calls as JSON, None if its JSON holds no valid
        ones.

        Such an answer, and one without JSON, predicts no calls, which is right where the gold is
        the empty list.
        """
        calls, outcome = predict(answer, self._path)
        extracted = None if outcome is ExtractionOutcome.INVALID_JSON else as_text(calls)
        correct = any(self._comparison.equal(CallSample(self._gold(gold), calls)) for gold in golds)
        vote = None if extracted is None else self._comparison.normal_calls(calls)
        return Verdict(correct, extracted, vote)

    def _gold(self, gold: str) -> Calls:
        found = extract_json(gold)
        if found.outcome is not ExtractionOutcome.PARSED:
            raise InvalidRequest(f"the gold {gold[:80]!r} is not JSON", param="gold")
        try:
            return calls_of(found.value, self._path, "the gold")
        except InvalidCalls as error:
            raise InvalidRequest(str(error), param="gold") from error
