"""ReTool's reward, with all its options."""

import pytest
from pydantic import ValidationError

from services.contracts.rewards.rewards import RetoolReward
from services.contracts.rollouts.trajectories import CallOutcome
from tests.support.rewards import failure, score, trajectory

RETOOL = {"type": "retool"}
CAP = RETOOL | {"cap": True}
PLAIN = RETOOL | {"plain": True}
STRICT = RETOOL | {"strict": True}
MATH = RETOOL | {"equivalence": "math"}


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{4}",
        "So it is $\\boxed{ 4 }$.<|im_end|>\n",
        "\\boxed{3}, no: \\boxed{4}",
        "\\boxed{4} and then \\boxed{",  # an unterminated box is not an answer
        "\\boxed{4}" + "x" * 291,
    ],
)
def test_the_last_box_near_the_end_is_the_answer(text: str) -> None:
    assert score(trajectory(text), RETOOL) == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "\\boxed{5}",
        "\\boxed{4}, no: \\boxed{5}",
        "\\boxed{4" + "x" * 10,
        "\\boxed{4}" + "x" * 292,
        "'\\boxed{'4'}'",
        "<think>maybe \\boxed{4} but wait",
        "<think>\\boxed{4}</think> I do not know.",
        '{"code": "\\\\boxed{4}"}',  # a line break and "boxed{4}", not a box
    ],
)
def test_other_texts_score_minus_one(text: str) -> None:
    assert score(trajectory(text), RETOOL) == -1.0


def test_braces_in_a_box_are_balanced() -> None:
    sample = trajectory("\\boxed{\\frac{1}{\\sqrt{2}}}", gold=["\\frac{1}{\\sqrt{2}}"])

    assert score(sample, RETOOL) == 1.0


def test_an_escaped_brace_does_not_close_a_box() -> None:
    assert score(trajectory("\\boxed{[0,1\\}}", gold=["[0,1\\}"]), RETOOL) == 1.0


def test_any_of_several_golds_is_right() -> None:
    assert score(trajectory("\\boxed{four}", gold=["4", "four"]), RETOOL) == 1.0


def test_tool_output_is_not_an_answer() -> None:
    sample = trajectory("call", "done", replies=["\\boxed{4}"])

    assert score(sample, RETOOL) == pytest.approx(-0.9)


def test_a_box_does_not_span_turns() -> None:
    assert score(trajectory("\\boxed{", "4}"), RETOOL) == -1.0


def test_an_answer_before_a_last_short_turn_counts() -> None:
    assert score(trajectory("\\boxed{4}", "As I said."), RETOOL) == 1.0


@pytest.mark.parametrize(
    ("tool_turns", "expected"), [(0, -1.0), (1, -0.9), (3, -0.7), (10, 0.0), (12, 0.0)]
)
def test_tool_turns_reduce_the_penalty_of_a_wrong_answer(tool_turns: int, expected: float) -> None:
    texts = ["call"] * tool_turns + ["no idea"]

    assert score(trajectory(*texts, replies=["1"] * tool_turns), RETOOL) == pytest.approx(expected)


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in CallOutcome if outcome is not CallOutcome.ANSWERED]
)
def test_only_answered_calls_count_as_a_tool_turn(outcome: CallOutcome) -> None:
    sample = trajectory("call", "no", replies=[""], outcome=outcome)

    assert score(sample, RETOOL) == -1.0


@pytest.mark.parametrize(
    ("tool_turns", "expected"), [(0, -1.0), (1, -0.9), (2, -0.8), (4, -0.6), (8, -0.6)]
)
def test_the_tool_bonus_is_capped_as_in_the_recipe(tool_turns: int, expected: float) -> None:
    texts = ["call"] * tool_turns + ["no idea"]

    assert score(trajectory(*texts, replies=["1"] * tool_turns), CAP) == pytest.approx(expected)


def test_a_final_tool_result_counts_as_half_a_turn_less() -> None:
    assert score(trajectory("call", "call", replies=["1", "1"]), CAP) == pytest.approx(-0.85)


def test_plain_scores_right_and_wrong_only() -> None:
    wrong = trajectory("call", "no", replies=["1"])

    assert score(wrong, PLAIN) == -1.0
    assert score(trajectory("\\boxed{4}"), PLAIN) == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{4}", 1.0),
        ("\\boxed{ 4}", -1.0),
        ("\\boxed{4}" + "x" * 91, 1.0),
        ("\\boxed{4}" + "x" * 92, -1.0),
        ("\\boxed{4} \\boxed{", -1.0),
    ],
)
def test_strict_matches_the_published_code(text: str, expected: float) -> None:
    assert score(trajectory(text), STRICT) == expected


def test_string_equivalence_ignores_mathematical_equality() -> None:
    assert score(trajectory("\\boxed{0.5}", gold=["\\frac{1}{2}"]), RETOOL) == -1.0


def test_math_equivalence_accepts_equal_expressions() -> None:
    sample = trajectory("\\boxed{0.5}", gold=["\\frac{1}{2}"])

    assert score(sample, MATH) == 1.0


def test_a_row_without_an_answer_cannot_be_rewarded() -> None:
    assert "gold" in failure(trajectory("\\boxed{4}", gold=[]), RETOOL)


@pytest.mark.parametrize("options", [CAP | PLAIN, STRICT | MATH])
def test_contradictory_options_are_rejected(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RetoolReward.model_validate(options)
