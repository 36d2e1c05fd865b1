"""Expressions are compared by what they mean, and no answer escapes its judge."""

import asyncio

import pytest

from services.rewards.interface import RewardFailed
from services.rewards.mathematics import equality
from services.rewards.mathematics.equality import Equality
from services.rewards.mathematics.expressions import are_equal

EQUAL = [
    ("1/2", "0.5"),
    ("\\frac12", "\\frac{2}{4}"),
    ("x+1", "1 + x"),
    ("x^2-1", "(x-1)(x+1)"),
    ("\\sqrt{2}", "2^{1/2}"),
    ("(1,2)", "(1, 2)"),
    ("\\{1,2\\}", "\\{2,1\\}"),
    ("10\\%", "0.1"),
    ("1,000", "1000"),
    ("3", "x = 3"),
    ("42", "42.0"),
    ("\\text{Yes}", "yes"),
    ("New  York", "new york"),
]
DIFFERENT = [
    ("5", "4 \\text{ or } 5"),
    ("5", "4, 5"),
    ("5", "5 or 6"),
    ("(1,2)", "[1,2]"),
    ("-3", "3"),
    ("2", "2.0001"),
    ("tea", "eat"),
    ("x", "y"),
    ("5", ""),
    ("", ""),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_what_means_the_same_is_equal(gold: str, answer: str) -> None:
    assert are_equal(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_what_means_something_else_is_not(gold: str, answer: str) -> None:
    assert not are_equal(gold, answer)


def compared(*pairs: tuple[str, str]) -> list[bool]:
    async def ask() -> list[bool]:
        async with Equality() as mathematics:
            return await asyncio.gather(
                *(mathematics.any_equal([gold], answer) for gold, answer in pairs)
            )

    return asyncio.run(ask())


def test_an_answer_that_cannot_be_computed_is_wrong_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equality, "SECONDS", 600.0)
    endless = "((((9^9)^9)^9)^9)^9 + \\sqrt{9^{9^{9^9}}}"

    answers = compared(("5", endless), ("1/2", "0.5"), ("5", "\\frac{"), ("5", "x" * 5000))

    assert answers == [False, True, False, False]


def test_without_a_way_to_compare_no_answer_is_called_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equality, "FUNCTION", "services.rewards.mathematics.absent.equal")

    with pytest.raises(RewardFailed, match="cannot be compared"):
        compared(("1/2", "0.5"))
