"""Whether two formulas have the same value, for all values of their names."""

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath

from services.rewards.mathematics.evaluation import (
    CONSTANTS,
    Budget,
    Evaluation,
    NeedsIntegers,
    TooCostly,
    Unevaluable,
)
from services.rewards.mathematics.tree import Node, names_of

DIGITS = 50
"""Of a first evaluation; a second has twice as many."""
_TOLERANCE = -35
"""Decimal exponent of the relative difference of equal values, for `DIGITS`."""
_POINTS = 6

Point = dict[str, Fraction]


def are_same(one: Node, other: Node) -> bool:
    """Whether two formulas are equal wherever both are real; complex ones, wherever they have a
    value. Raises `Unevaluable` if they are nowhere comparable."""
    variables, budget = _variables(one, other), Budget()
    try:
        return _agree(one, other, _points(variables, whole=False), budget)
    except NeedsIntegers:
        return _agree(one, other, _points(variables, whole=True), budget)


def are_proportional(one: Node, other: Node, *, positive: bool = False) -> bool:
    """Whether a formula is another times a constant that is not 0; with ``positive``, above 0.

    Raises `Unevaluable`.
    """
    points, budget = _points(_variables(one, other), whole=False), Budget()
    ratios: list[Any] = []
    with mpmath.workdps(DIGITS):
        for point in points:
            try:
                pair = [_to_number(Evaluation(point, budget).value(tree)) for tree in (one, other)]
            except (NeedsIntegers, TooCostly):
                raise
            except Unevaluable:
                continue
            if not all(mpmath.isfinite(value) for value in pair):
                continue
            if _is_tiny(pair[0]) or _is_tiny(pair[1]):
                if _is_tiny(pair[0]) != _is_tiny(pair[1]):
                    return False
                continue
            ratios.append(pair[0] / pair[1])
        if len(ratios) < 2:
            raise Unevaluable("no points to compare at")
        same = all(_are_near(a, b) for a, b in pairwise(ratios))
        return same and (not positive or (mpmath.im(ratios[0]) == 0 and mpmath.re(ratios[0]) > 0))


def value_of(tree: Node) -> Any:
    """The real value of a formula without names; raises `Unevaluable`."""
    if tree.kind == "name" and tree.name == "∞":
        return mpmath.inf
    if tree.kind == "neg" and tree.parts[0].name == "∞":
        return -mpmath.inf
    with mpmath.workdps(DIGITS):
        value = Evaluation({}, Budget()).value(tree)
        if not isinstance(value, Fraction) and mpmath.im(value):
            raise Unevaluable("not a real number")
        return value


def difference(one: Node, other: Node) -> Node:
    """The formula of a difference."""
    return Node("+", (one, Node("neg", (other,))))


def _variables(*trees: Node) -> list[str]:
    return sorted(frozenset().union(*map(names_of, trees)) - CONSTANTS - {"∞"})


def _agree(one: Node, other: Node, points: list[Point], budget: Budget) -> bool:
    real = complex_ones = 0
    differs_in_complex = False
    for point in points:
        try:
            is_equal, is_real = _are_equal(_Value(one, point, budget), _Value(other, point, budget))
        except (NeedsIntegers, TooCostly):
            raise
        except Unevaluable:
            continue
        if is_real and not is_equal:
            return False
        real, complex_ones = real + is_real, complex_ones + (not is_real)
        differs_in_complex |= not is_equal
    if real >= min(2, len(points)):
        return True
    if not complex_ones:
        raise Unevaluable("no points to compare at")
    return not differs_in_complex


class _Value:
    """The value of a tree at a point, to some digits or to twice as many."""

    def __init__(self, tree: Node, point: Point, budget: Budget) -> None:
        self._tree = tree
        self._point = point
        self._budget = budget
        with mpmath.workdps(DIGITS):
            self.first = Evaluation(point, budget).value(tree)

    def second(self) -> Any:
        if isinstance(self.first, Fraction):
            return self.first
        with mpmath.workdps(2 * DIGITS):
            return Evaluation(self._point, self._budget).value(self._tree)


def _are_equal(one: _Value, other: _Value) -> tuple[bool, bool]:
    """Whether two values are equal, and whether both are real."""
    a, b = one.first, other.first
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b, True
    with mpmath.workdps(DIGITS):
        numbers = [_to_number(a), _to_number(b)]
        if not all(mpmath.isfinite(value) for value in numbers):
            raise Unevaluable("not finite")
        is_real = all(_is_real(value) for value in numbers)
        if not _are_near(*numbers) and not all(map(_is_tiny, numbers)):
            return False, is_real
    with mpmath.workdps(2 * DIGITS):
        second = [_to_number(one.second()), _to_number(other.second())]
        zeros = [_vanishes(*pair) for pair in zip(numbers, second, strict=True)]
        if any(zeros):
            return all(zeros), is_real
        scale = max(map(abs, second))
        limit = mpmath.mpf(10) ** (2 * _TOLERANCE - 10)
        return bool(abs(second[0] - second[1]) <= limit * scale), is_real


def _to_number(value: Any) -> Any:
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return value


def _is_real(value: Any) -> bool:
    imaginary = abs(mpmath.im(value))
    return bool(imaginary <= abs(value) * mpmath.mpf(10) ** _TOLERANCE)


def _are_near(a: Any, b: Any) -> bool:
    return bool(abs(a - b) <= mpmath.mpf(10) ** _TOLERANCE * max(abs(a), abs(b)))


def _is_tiny(value: Any) -> bool:
    """Whether a value may be a rounding error of 0."""
    return bool(abs(value) < mpmath.mpf(10) ** _TOLERANCE)


def _vanishes(first: Any, second: Any) -> bool:
    """Whether a value is 0: with more digits, a rounding error becomes smaller."""
    return not second or bool(abs(second) < abs(first) * mpmath.mpf(10) ** _TOLERANCE)


def _points(variables: list[str], *, whole: bool) -> list[Point]:
    """Values of names: positive, of both signs, small ones, always the same."""
    if not variables:
        return [{}]
    return list(_drawn(variables, whole=whole))


def _drawn(variables: list[str], *, whole: bool) -> Iterator[Point]:
    source = random.Random(len(variables))  # noqa: S311 - a sample, not a secret
    for place in range(_POINTS):
        if whole:
            yield {name: Fraction(source.randint(2, 12)) for name in variables}
            continue
        most = 90 if place == 0 else 400
        signs = (1,) if place < _POINTS // 2 else (1, -1)
        yield {
            name: Fraction(source.randint(11, most) * source.choice(signs), 101)
            for name in variables
        }
