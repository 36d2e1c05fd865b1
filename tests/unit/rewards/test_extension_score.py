"""What an extension's component returns, in evaluations and trainings."""

import asyncio
import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.failures import InfrastructureCause
from services.evaluator.evaluation.endpoint import Answer
from services.evaluator.evaluation.generation import Grading
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.totals import RunningTotals
from services.parsing.foreign_json import json_line
from services.rewards.extension_score import ExtensionScore
from services.rewards.functions import as_float, read_score
from services.rewards.interface import RewardFailed, Sample, Score

ANSWER = Answer("4", "stop", 1, 1, 1, 0.1)
SAMPLE = EvaluationSample(0, ({"role": "user", "content": "2+2?"},), ("4",), {})


class Given:
    """A component that returns, or raises, what it was made with."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    async def score(self, sample: Sample) -> Score:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        score: Score = self._outcome
        return score


def scored(outcome: Any) -> Score:
    return asyncio.run(ExtensionScore("e", Given(outcome)).score(Sample.of_answer("4")))


def row(outcome: Any) -> ResultRow:
    return asyncio.run(Grading(ExtensionScore("e", Given(outcome)), 1.0).row(SAMPLE, ANSWER))


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ({"score": 1}, 1.0),
        (True, 1.0),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(1), 1.0),
        (np.bool_(False), 0.0),
        (np.array(0.5), 0.5),
    ],
)
def test_a_number_of_any_type_is_stored_as_a_float(value: Any, score: float) -> None:
    graded = row(Score(value))

    assert type(graded.score) is float
    assert (graded.score, graded.correct, graded.error) == (score, score >= 1.0, None)


@pytest.mark.parametrize(
    "value",
    ["1", np.str_("1"), b"1", None, [1.0], {"scores": 1}, {"score": "1"}, 1j, np.complex64(1)],
)
def test_what_is_no_number_is_no_score(value: Any) -> None:
    with pytest.raises(RewardFailed, match=r"^the extension 'e' gave .*, not a score$"):
        scored(Score(value))


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), np.array(["1", "2"])])
def test_several_numbers_are_no_score(value: Any) -> None:
    with pytest.raises(RewardFailed, match="not a score"):
        scored(Score(value))


@given(st.one_of(st.floats(), st.integers(), st.fractions(), st.decimals(), st.booleans()))
def test_a_score_is_a_finite_float_or_refused(value: Any) -> None:
    number = as_float(value)
    if number is None or not math.isfinite(number):
        with pytest.raises(RewardFailed, match=r"^it gave "):
            read_score(value, "it")
    else:
        assert read_score(value, "it") == number == float(value)
        assert type(number) is float


def test_all_fields_are_stored_as_plain_values() -> None:
    fields: dict[str, Any] = {
        "value": np.float32(1.0),
        "parts": {"a": np.float32(0.5)},
        "tokens": {"judge": np.int64(3)},
        "extracted": np.str_("4"),
        "group": np.str_("g"),
        "measures": {np.str_("a"): np.float64(0.25)},
        "vote": np.str_("four"),
    }
    assert list(fields) == [field.name for field in dataclasses.fields(Score)]
    score = scored(Score(**fields))

    assert score == Score(1.0, {"a": 0.5}, {"judge": 3}, "4", "g", {"a": 0.25}, "four")
    plain = [*score.parts.values(), *score.tokens.values(), *score.measures, score.group]
    assert [type(each) for each in [*plain, score.vote]] == [float, int, str, str, str]


FAULTS = [
    ({"extracted": 5}, "extracted = 5, not a text"),
    ({"group": 3}, "group = 3, not a text"),
    ({"vote": 3}, "vote = 3, not a text"),
    ({"measures": None}, "measures = None, not numbers by name"),
    ({"measures": [1.0]}, r"measures = \[1.0\], not numbers by name"),
    ({"measures": {"a": "x"}}, r"measures\['a'\] = 'x', not a finite number"),
    ({"measures": {"a": float("nan")}}, r"measures\['a'\] = nan, not a finite number"),
    ({"measures": {"a": np.inf}}, r"measures\['a'\] = inf, not a finite number"),
    ({"measures": {"a": 10**400}}, r"measures\['a'\] = 10+\.\.\., not a finite number"),
    ({"measures": {1: 1.0}}, "measures with the name 1, not a text"),
    ({"parts": {"a": None}}, r"parts\['a'\] = None, not a finite number"),
    ({"tokens": {"judge": 0.5}}, r"tokens\['judge'\] = 0.5, not an integer"),
    ({"tokens": {"judge": np.array(0.5)}}, r"tokens\['judge'\] = .*, not an integer"),
]


@pytest.mark.parametrize(("fields", "message"), FAULTS)
def test_a_faulty_field_costs_its_sample_alone(fields: dict[str, Any], message: str) -> None:
    graded = row(Score(1.0, **fields))

    assert (graded.score, graded.correct, graded.left_out) == (None, None, None)
    with pytest.raises(RewardFailed, match=f"^the extension 'e' gave {message}$") as raised:
        scored(Score(1.0, **fields))
    assert graded.error == f"the answer was not graded: {raised.value.message}"


def test_a_measure_that_is_no_number_leaves_the_mean_of_the_others() -> None:
    totals = RunningTotals()
    for value in (0.5, float("nan"), 1.5):
        graded = row(Score(1.0, group="g", measures={"a": value}))
        totals.add(ResultRow.model_validate_json(json_line(graded)))

    measured = (totals.metrics().measures or {})["g"]["a"]
    assert (measured.mean, measured.samples) == (1.0, 2)


@pytest.mark.parametrize(
    ("raised", "error", "cause"),
    [
        (RewardFailed("no model"), "no model", None),
        (SystemExit(3), "the extension 'e' raised SystemExit: 3", None),
        (RewardFailed("late", cause=InfrastructureCause.TIMED_OUT), "late", "timed_out"),
        (RewardFailed("late", cause="timed_out"), "late", "timed_out"),  # type: ignore[arg-type]  # as of another package
        (
            RewardFailed("late", cause="tired"),  # type: ignore[arg-type]  # as of another package
            "the extension 'e' gave the cause 'tired': late",
            None,
        ),
    ],
)
def test_a_failure_costs_its_sample_alone(
    raised: BaseException, error: str, cause: str | None
) -> None:
    graded = row(raised)

    assert graded.error == f"the answer was not graded: {error}"
    assert (graded.left_out.cause if graded.left_out else None) == cause
