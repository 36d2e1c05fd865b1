"""Expressions are compared mathematically, within time and memory limits."""

import asyncio

import pytest

from services.contracts.failures import InfrastructureCause
from services.rewards.interface import RewardFailed
from services.rewards.mathematics import equality
from services.rewards.mathematics.costs import is_refused
from services.rewards.mathematics.equality import Equality, NotCompared
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
    ("1234", "1{,}234"),
    ("70000", "70,\\!000"),
    ("70000", "70\\,000"),
    ("11,\\! 111,\\! 100", "11111100"),
    ("12345678", "12{,}345{,}678"),
    ("-5", "\u20135"),
    ("-5", "\uff0d5"),
    ("5", "5 km^2"),
    ("\\frac{3}{4}", "\\cfrac{3}{4}"),
    ("5", "{\\bf 5}"),
    ("5", "5 \\textbf{ meters}"),
    ("90", "90\\degree"),
    ("11", "x \\approx 11"),
    ("5", "5 \\text{ m}^2"),
    ("5", "x = \\frac{10}{2} = 5"),
    ("5", "2 + 3 = 5"),
    ("12", "AB = 12"),
    ("12", "\\text{Area} = 12"),
    ("2x+1", "f(x) = 2x + 1"),
    ("x^2+y^2-25=0", "x^2+y^2=25"),
    ("x^2+y^2=25", "25 = x^2 + y^2"),
    ("x+y=3", "2x+2y=6"),
    ("y=2x+3", "2x - y + 3 = 0"),
    ("y=2x+3", "y = 3 + 2x"),
    ("x<1", "1 > x"),
    ("x\\neq 1", "(-\\infty,1)\\cup(1,\\infty)"),
    ("(-\\infty,1)\\cup(1,\\infty)", "\\mathbb{R} \\setminus \\{1\\}"),
    ("(-\\infty, 1) \\cup (3, \\infty)", "x < 1 \\text{ or } x > 3"),
    ("[1,3)", "1 \\le x < 3"),
    ("[1,3)", "x \\in [1, 3)"),
    ("[2, \\infty)", "x \\geq 2"),
    ("(-1,0)\\cup(0,1)", "(0,1) \\cup (-1,0)"),
    ("\\{x \\mid x > 1\\}", "(1, \\infty)"),
    ("x+y<3", "2x + 2y < 6"),
    ("\\binom{5}{2}", "10"),
    ("10", "\\binom{5}{2}"),
    ("1/2", "\\sin 30^\\circ"),
    ("101_2", "101_{2}"),
    ("101_2", "101"),
    ("\\frac{1}{2004!}", "\\frac{1}{2004 \\cdot 2003!}"),
    ("2^{-99}", "\\frac{1}{2^{99}}"),
    ("1, 234", "234, 1"),
    ("(2,2), (6,2)", "(6,2), (2,2)"),
    ("x=1, x=2", "1 \\text{ and } 2"),
    ("3, -3", "\\pm 3"),
    ("1 \\pm \\sqrt{2}", "1+\\sqrt2, 1-\\sqrt2"),
    ("\\ln x^2", "2 \\ln x"),
    ("\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}"),
    ("\\sin^2 x", "1 - \\cos^2 x"),
    ("\\frac{n(n+1)}{2}", "\\sum_{k=1}^{n} k"),
    ("\\log_2 8", "3"),
    ("3\\sqrt{13}", "\\sqrt{117}"),
    ("2\\sqrt{3} \\text{ cm}", "2\\sqrt3"),
    (
        "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
        "\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}",
    ),
    ("e^{i\\pi}", "-1"),
    ("|x|", "\\sqrt{x^2}"),
    ("\\lfloor 3.7 \\rfloor", "3"),
    ("\\frac12ab", "\\frac{ab}{2}"),
    ("6!", "720"),
    ("5", "5 square feet of paint"),
    ("6:30 \\text{ p.m.}", "6:30 p.m."),
    ("\\int_0^1 x dx", "\\int_{0}^{1} x\\,dx"),
    ("\\arctan 2", "\\tan^{-1} 2"),
    ("\\text{(C)}", "C"),
    ("\\text{Yes}", "**Yes.**"),
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
    ("234", "1{,}234"),
    ("0", "70,\\!000"),
    ("x^2+y^2-25=0", "x^2+y^2-16=0"),
    ("x^2+y^2-25=0", "3x-y+13=0"),
    ("x^2+y^2-25=0", "0"),
    ("x^2+y^2=25", "25"),
    ("25", "x^2+y^2=25"),
    ("x=3", "y=3"),
    ("x+y=3", "a+b=3"),
    ("3", "x+y=3"),
    ("x", "x = 5"),
    ("5", "2 + 2 = 5"),
    ("5", "xy = 5"),
    ("\\frac{1}{2004!}", "\\frac{1}{2006!}"),
    ("2^{-99}", "2^{-98}"),
    ("\\frac{\\pi}{2004!}", "0"),
    ("101_2", "101_3"),
    ("101_2", "110_2"),
    ("5", "101_2"),
    ("1234", "1, 234"),
    ("1234", "(1,234)"),
    ("32349", "32, 349"),
    ("x\\neq 1", "(-\\infty,1)\\cup(2,\\infty)"),
    ("x\\neq 1", "x \\neq 2"),
    ("x<1", "x \\le 1"),
    ("x<1", "y<1"),
    ("x<1", "x>1"),
    ("[1,3)", "1 < x < 3"),
    ("x+y<3", "2x + 2y > 6"),
    ("\\binom{5}{2}", "\\binom{5}{1}"),
    ("\\sin 30^\\circ", "\\sin 60^\\circ"),
    ("\\sin 30^\\circ", "\\sin 30"),
    ("(2,2), (6,2)", "(2,2)"),
    ("(1,2)", "(2,1)"),
    ("3, -3", "3"),
    ("|x|", "x"),
    ("\\sqrt{x^2}", "x"),
    ("2\\sqrt{3} \\text{ cm}", "2\\sqrt3 \\text{ m}"),
    (
        "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
        "\\begin{pmatrix} 1 & 3 \\\\ 2 & 4 \\end{pmatrix}",
    ),
    ("10^{15}+1", "10^{15}"),
    ("2", "2 x y"),
    ("5", "5 ab"),
    ("23", "2*3"),
    ("23", "2**3"),
    ("\\pi", "3"),
    ("x^2", "x"),
    ("\\text{(C)}", "D"),
    ("1", "1e999999999999"),
    ("1", "\\binom{10^{12}}{10^{11}}"),
    ("1", "\\prod_{k=1}^{10^9} k"),
    ("x", "((((9^9)^9)^9)^9)^9"),
    ("x", "\\sum_{k=1}^{9999} \\sin(k^k)^{k!}"),
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


def test_a_comparison_without_processor_time_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "SECONDS", 60.0)

    async def ask() -> None:
        async with Equality() as mathematics:
            assert await mathematics.any_equal(["x"], "x + 0")
            monkeypatch.setattr(equality, "SECONDS", 0.0)
            await mathematics.any_equal(["x"], "x + 1")

    with pytest.raises(NotCompared, match="no processor time") as caught:
        asyncio.run(ask())
    assert caught.value.cause is InfrastructureCause.NO_PROCESSOR_TIME


def test_costly_expressions_are_not_computed() -> None:
    costly = [
        "1e999999999999",
        "9^{9^{9^9}}",
        "\\binom{10^{12}}{10^{11}}",
        "\\prod_{k=1}^{10^9} k",
        "\\sum_{k=1}^{2000} \\sum_{j=1}^{2000} \\sin(jk)",
        "\\sum_{k=1}^{2000} (k!)^{k}",
        "(10^9)!",
        "((((9^9)^9)^9)^9)^9",
        "(" * 400 + "1" + ")" * 400,
        "\\sqrt" * 150 + "2",
    ]
    # Computing any of them takes longer than a test may.
    assert not any(are_equal("\\pi", each) for each in costly)
