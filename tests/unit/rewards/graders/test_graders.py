"""OpenAI's graders as rewards."""

from typing import Any

import pytest

from tests.support.rewards import failure, rewarded, score, trajectory

CHECK = {
    "type": "string_check",
    "name": "check",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.gold }}",
}
LEVEL = CHECK | {"input": "{{ item.level }}", "reference": "3"}


@pytest.mark.parametrize(
    ("operation", "text", "expected"),
    [
        ("eq", "Four", 1.0),
        ("eq", "four", 0.0),
        ("eq", "Four ", 0.0),
        ("ne", "Four", 0.0),
        ("ne", "five", 1.0),
        ("like", "It is Four.", 1.0),
        ("like", "It is four.", 0.0),
        ("like", "our", 0.0),
        ("ilike", "It is FOUR.", 1.0),
        ("ilike", "five", 0.0),
    ],
)
def test_string_check_compares_by_its_operation(operation: str, text: str, expected: float) -> None:
    assert score(trajectory(text, gold=["Four"]), CHECK | {"operation": operation}) == expected


def test_only_the_last_turn_is_checked() -> None:
    sample = trajectory("I call", "4<|im_end|>\n", replies=["5"])

    assert score(sample, CHECK) == 1.0


def multi(formula: str, **graders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "multi", "name": "m", "graders": graders, "calculate_output": formula}


def test_a_formula_combines_graders() -> None:
    sample = trajectory("4", extra={"level": 3})
    reward = multi("0.5 * a + max(b, a) ^ 2", a=CHECK, b=LEVEL)

    assert score(sample, reward) == 1.5


def test_a_failing_grader_fails_the_formula_and_is_named() -> None:
    message = failure(trajectory("4"), multi("a", a=CHECK, b=LEVEL))

    assert message == "r0: b: there is no item.level"


def test_a_formula_without_a_value_is_reported() -> None:
    assert "cannot be computed" in failure(trajectory("5"), multi("1 / a", a=CHECK))


def test_graders_and_rewards_are_summed() -> None:
    weights = [
        {"name": "a", "weight": 2, "reward": CHECK},
        {"name": "b", "weight": 1, "reward": {"type": "retool", "plain": True}},
    ]

    assert rewarded(trajectory("4"), *weights).reward == 1.0
