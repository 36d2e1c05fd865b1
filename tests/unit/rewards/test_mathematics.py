"""Expressions are compared mathematically, within time and memory limits."""

import asyncio

import pytest

from services.rewards.interface import RewardFailed
from services.rewards.mathematics import equality
from services.rewards.mathematics.equality import Equality, is_refused
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
    ("42", "42."),
    ("10000", "10 000"),
    ("10000", "10\\,000"),
    ("100", "1e2"),
    ("6.02e23", "6.02\\times 10^{23}"),
    ("6.02e23", "6.02e23"),
    ("\\emptyset", "\\emptyset"),
    ("\\emptyset", "\\varnothing"),
    ("\\emptyset", "\\{\\}"),
    ("x", "x+0"),
    ("i", "\\sqrt{-1}"),
    ("\\sin 30^\\circ", "\\frac{1}{2}"),
    ("\\sin 30^\\circ", "0.5"),
    ("\\sin 30^\\circ", "\\sin 30^\\circ"),
    ("0<x<1", "(0,1)"),
    ("(0,1)", "0<x<1"),
    ("5 cm", "5"),
    ("5", "5 m"),
    ("1/3", "0.333333"),
    ("3/2", "1\\frac{1}{2}"),
    ("1,2", "2,1"),
    ("1/3", "0.\\overline{3}"),
    ("30^\\circ", "30"),
    ("5", "(5)"),
    ("2\\sqrt{2}", "\\sqrt{8}"),
    ("x=3", "3"),
    ("5", "x = 5"),
    ("5", "\\angle A = 5^\\circ"),
    ("10\\%", "10"),
    ("50", "50\\%"),
    ("1000", "10^3"),
    ("-5", "-5"),
    ("-\\frac{1}{2}", "\\frac{-1}{2}"),
    ("12", "12\\text{ apples}"),
    ("12", "12 apples"),
    ("\\$5", "5"),
    ("5 cm", "5\\text{ centimeters}"),
    ("0.5", ".5"),
    ("\\left(1,2\\right)", "(1,2)"),
    ("10", "\\$10.00"),
    ("\\pi", "\\pi"),
    ("e", "e"),
    ("12", "\\text{12}"),
    ("12", "12 \\text{ sq. cm}"),
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
    ("616", "81 + 535"),
    ("6", "\\sum_{i=1}^{3} i"),
    ("6", "7=6"),
    ("6", "2\\cdot 3"),
    ("1024", "2^{10}"),
    ("5 cm", "5 m"),
    ("5 cm", "5\\text{ m}"),
    ("\\pi", "3.14159265358979"),
    ("\\pi", "3.1415926"),
    ("e", "2.718281828459045"),
    ("45", "4 5"),
    ("5", "5x"),
    ("5", "5 x"),
    ("1000000", "1000001"),
    ("1e-9", "2e-9"),
    ("5 cm", "5\\text{ cm}^2"),
    ("x=3", "5"),
    ("\\sqrt{2}", "1.41421356"),
    ("2", "\\sqrt{4}"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equivalent_expressions_are_equal(gold: str, answer: str) -> None:
    assert are_equal(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_expressions_with_different_values_are_not_equal(gold: str, answer: str) -> None:
    assert not are_equal(gold, answer)


def compared(*pairs: tuple[str, str]) -> list[bool]:
    async def ask() -> list[bool]:
        async with Equality() as mathematics:
            return await asyncio.gather(
                *(mathematics.any_equal([gold], answer) for gold, answer in pairs)
            )

    return asyncio.run(ask())


def test_an_uncomputable_answer_is_wrong_and_does_not_delay_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equality, "SECONDS", 600.0)
    endless = "((((9^9)^9)^9)^9)^9 + \\sqrt{9^{9^{9^9}}}"

    answers = compared(("5", endless), ("1/2", "0.5"), ("5", "\\frac{"), ("5", "x" * 5000))

    assert answers == [False, True, False, False]


def test_a_broken_comparison_fails_instead_of_scoring_answers_as_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equality, "FUNCTION", "services.rewards.mathematics.absent.equal")

    with pytest.raises(RewardFailed, match="cannot be compared"):
        compared(("1/2", "0.5"))


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("1,2", "1, 2", True),
        ("1,2", "2,1", False),
        ("(1,2)", "(2,1)", False),
        ("\\{1,2\\}", "\\{2,1\\}", False),
        ("\\frac{1}{2},3", "0.5,3", True),
        ("1,2", "1,2,3", False),
    ],
)
def test_the_order_of_a_list_may_matter(gold: str, answer: str, expected: bool) -> None:
    assert are_equal(gold, answer, ordered=True) is expected


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9^9}}",
        "((((9^9)^9)^9)^9)^9",
        "10^{1000000}",
        "x^{99999}",
        "(9!)!",
        "\\left(2^{100}\\right)^{1000}",
        "123456!",
    ],
)
def test_power_towers_are_rejected_without_evaluation(text: str) -> None:
    assert is_refused(text)


@pytest.mark.parametrize(
    "text", ["2^{100}", "2^{2^3}", "x^2+y^{10}", "e^{x^2}", "(n+1)!", "1.05^{120}", "10^{23}"]
)
def test_ordinary_powers_are_accepted(text: str) -> None:
    assert not is_refused(text)


def test_ordinary_comparisons_do_not_wait_behind_costly_ones() -> None:
    endless = "\\sum_{k=1}^{9999} \\sin(k^k)^{k!}"

    async def ask() -> list[bool]:
        async with Equality() as mathematics:
            slow = [asyncio.create_task(mathematics.any_equal(["x"], endless)) for _ in range(20)]
            first = await mathematics.any_equal(["x"], "x + 0")
            waiting = [task.done() for task in slow]
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            return [first, any(waiting)]

    assert asyncio.run(ask()) == [True, False]
