"""Notations of answers besides formulas: angles, signs of logic, fractions without braces."""

import pytest

from services.rewards.mathematics.expressions import are_equal

EQUAL = [
    ("\\frac 1 2", "0.5"),
    ("\\frac 12", "\\frac{1}{2}"),
    ("3\\frac 1 2", "3.5"),
    ("3 1/2", "\\frac{7}{2}"),
    ("-3 1/2", "-3.5"),
    ("(3 1/2, 2)", "(3.5, 2)"),
    ("3 1/2\\text{ cups}", "3.5"),
    ("\\approx 3.14", "3.14"),
    ("x \\approx 3.14", "\\approx 3.14"),
    ("\\angle ABC", "\\angle CBA"),
    ("\\angle{ABC}", "\u2220CBA"),
    ("m\\angle ABC = 50^\\circ", "50"),
    ("1+0i, 1", "1, 1+0i"),  # 1 may be either gold, but 1+0i is only one of them
    ("p \\land q", "q \\wedge p"),
    ("p \\land q", "p \u2227 q"),
    ("x<1 \\lor x>3", "(-\\infty,1)\\cup(3,\\infty)"),
    ("x>1 \\land x<3", "(1,3)"),
    ("x=1 \\lor x=2", "x=1 \\text{ or } x=2"),
    ("x=1 \\lor x=2", "1, 2"),
]
DIFFERENT = [
    ("\\frac 1 2", "12"),
    ("3 1/2", "1.5"),
    ("3 1/2", "31/2"),
    ("4 5", "45"),
    ("\\angle ABC", "\\angle ACB"),
    ("\\angle ABC", "\\angle BAC"),
    ("\\angle ABC", "\\angle ABD"),
    ("\\angle A", "A"),
    ("p \\land q", "p \\lor q"),
    ("p \\land q \\lor r", "p \\lor q \\land r"),
    ("x>1 \\land x<3", "x>1 \\lor x<3"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_two_notations_of_one_answer_are_equal(one: str, other: str) -> None:
    assert are_equal(one, other)
    assert are_equal(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_similar_notations_of_two_answers_are_not_equal(one: str, other: str) -> None:
    assert not are_equal(one, other)
    assert not are_equal(other, one)
