"""Formulas of multi graders."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rewards.graders.multi import Formula, FormulaError

VALUES = {"a": 0.5, "b": 2.0, "zero": 0.0, "min": 9.0}

# A text and its value, built together.
numbers = st.integers(0, 9).map(lambda n: (str(n), float(n)))
names = st.sampled_from(["a", "b"]).map(lambda n: (n, VALUES[n]))


def _joined(pair: tuple[tuple[str, float], tuple[str, float]]) -> list[tuple[str, float]]:
    (left, x), (right, y) = pair
    return [
        (f"({left} + {right})", x + y),
        (f"({left}-{right})", x - y),
        (f"({left} *{right})", x * y),
        (f"min({left}, {right})", min(x, y)),
        (f"max( {left} ,{right} )", max(x, y)),
        (f"-{left}", -x),
        (f"abs({left})", abs(x)),
    ]


expressions = st.recursive(
    numbers | names,
    lambda inner: st.tuples(inner, inner).flatmap(lambda pair: st.sampled_from(_joined(pair))),
    max_leaves=12,
)


@given(expressions)
def test_a_formula_evaluates_to_the_value_of_its_parts(expression: tuple[str, float]) -> None:
    text, value = expression

    assert Formula.parse(text).evaluate(VALUES) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("8 - 4 - 2", 2),
        ("8 / 4 / 2", 1),
        ("2 ^ 3 ^ 2", 512),
        ("2 ** 3", 8),
        ("-2 ^ 2", -4),
        ("2 ^ -1", 0.5),
        ("--a", 0.5),
        (".5 + 1.5e1", 15.5),
        ("(a + b) / 2", 1.25),
        ("floor(1.5) + ceil(1.5)", 3),
        ("exp(0) + sqrt(4) + log(1)", 3),
        ("min(a) + min", 9.5),
        ("min(a, b, zero)", 0),
        ("+".join(["1"] * 1000), 1000),
    ],
)
def test_operators_have_mathematical_precedence(text: str, value: float) -> None:
    assert Formula.parse(text).evaluate(VALUES) == pytest.approx(value)


def test_a_parsed_formula_lists_its_variables() -> None:
    # A name that is not called is a variable, even if it is a function's name.
    assert Formula.parse("max(a, b) + a * min").names == {"a", "b", "min"}


@pytest.mark.parametrize(
    "text",
    [
        *("", "1 +", "1 2", "(1", "1)", "()", "a b", "*1", "1,2", "1..2", "a.b", "'a'", "a[0]"),
        *("open(a)", "abs(1, 2)", "abs()", "__import__('os')", "lambda: 1", "1 if a else 2"),
        *("(" * 500 + "1" + ")" * 500, "2^" * 500 + "2", "\\", "é+1"),
    ],
)
def test_malformed_formulas_are_rejected(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula.parse(text)


@pytest.mark.parametrize(
    "text", ["1 / zero", "9 ^ 9 ^ 9", "sqrt(-1)", "log(0)", "1e308 * 10", "0 ^ -1", "exp(1000)"]
)
def test_a_formula_without_a_finite_value_is_an_error(text: str) -> None:
    with pytest.raises((ArithmeticError, ValueError)):
        Formula.parse(text).evaluate(VALUES)


@given(st.text(alphabet="ab01.+-*/^(), minexp", max_size=40))
def test_any_text_parses_to_a_finite_formula_or_is_rejected(text: str) -> None:
    try:
        formula = Formula.parse(text)
    except FormulaError:
        return
    values = dict.fromkeys(formula.names, 1.0)
    with contextlib.suppress(ArithmeticError, ValueError):
        assert math.isfinite(formula.evaluate(values))
