"""Evaluates formulas: exactly where they are rational, else to many digits, at bounded cost."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import mpmath

from services.rewards.mathematics.tree import Node

MAX_BITS = 200_000
"""Of the numerator and the denominator of an exact value; a larger one is evaluated to digits."""
MAX_COST = 20_000
"""Operations of a comparison; those with many exact digits count more."""
MAX_TERMS = 2_000
"""Of a sum or a product."""
_BITS_PER_OPERATION = 2_000
_MAX_MAGNITUDE = 64
"""Bits of the exponent of a value: beyond, a value is not evaluated."""

Names = Mapping[str, Any]


class Unevaluable(Exception):
    """A formula has no value here, or one that costs too much."""


class TooCostly(Unevaluable):
    """A comparison has used up its budget."""


class Budget:
    """What a comparison may cost."""

    def __init__(self) -> None:
        self._left = MAX_COST

    def pay(self, cost: int = 1) -> None:
        """Raise `TooCostly` when nothing is left."""
        self._left -= cost
        if self._left < 0:
            raise TooCostly("too many operations")


class NeedsIntegers(Unevaluable):
    """A formula has a value for integers only, such as a sum with a name as its last index."""


class Evaluation:
    """Evaluates trees with values for their names, numbers of ``mpmath`` or fractions.

    A result is a `Fraction` where the value is rational and not too large, else an ``mpmath``
    number of the current precision.
    """

    def __init__(self, names: Names, budget: Budget) -> None:
        self._names = dict(names)
        self._budget = budget

    def value(self, tree: Node) -> Any:
        """The value of a tree; raises `Unevaluable`."""
        self._budget.pay()
        match tree.kind:
            case "number":
                return tree.value
            case "based":
                return Fraction(int(tree.name, int(tree.value or 10)))
            case "name":
                return self._named(tree.name)
            case "sum" | "product":
                return self._series(tree)
        operation = _OPERATIONS.get(tree.kind)
        if operation is None:
            raise Unevaluable(f"no value of {tree.kind}")
        try:
            value = operation(*map(self.value, tree.parts))
            if isinstance(value, Fraction):
                self._budget.pay((_bits(value) // _BITS_PER_OPERATION) ** 2)
            return value
        except (ArithmeticError, ValueError, TypeError, mpmath.libmp.NoConvergence) as error:
            raise Unevaluable(str(error)) from None

    def _named(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        constant = _CONSTANTS.get(name)
        if constant is None:
            raise Unevaluable(f"{name} has no value")
        return constant()

    def _series(self, tree: Node) -> Any:
        index, first, last, term = tree.parts
        begin, end = (_integer(self.value(each)) for each in (first, last))
        if end - begin >= MAX_TERMS:
            raise Unevaluable("too many terms")
        before = self._names.get(index.name)
        total: Any = Fraction(0 if tree.kind == "sum" else 1)
        combine = _add if tree.kind == "sum" else _multiply
        for number in range(begin, end + 1):
            self._names[index.name] = Fraction(number)
            total = combine(total, self.value(term))
        self._names.pop(index.name, None)
        if before is not None:
            self._names[index.name] = before
        return total


def _integer(value: Any) -> int:
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    raise NeedsIntegers("an index that is not an integer")


def _number(value: Any) -> Any:
    """A value as a number of mpmath."""
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _exact(work: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Any, Any], Any]:
    def operation(one: Any, other: Any) -> Any:
        exact = isinstance(one, Fraction) and isinstance(other, Fraction)
        if exact and _bits(one) + _bits(other) <= MAX_BITS:
            return work(one, other)
        return work(_number(one), _number(other))

    return operation


_add = _exact(lambda one, other: one + other)
_multiply = _exact(lambda one, other: one * other)
_divide = _exact(lambda one, other: one / other)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1 and _bits(base) * abs(int(exponent)) <= MAX_BITS:
            return base ** int(exponent)
        if base > 0 and exponent.denominator <= 64 and (root := _root_of(base, exponent)):
            return root
    base, exponent = _number(base), _number(exponent)
    if not base:
        return mpmath.power(base, exponent)
    _check_magnitude(exponent * mpmath.log(base))
    return mpmath.power(base, exponent)


def _root_of(base: Fraction, exponent: Fraction) -> Fraction | None:
    """A rational power that is rational: ``8^{2/3}`` is 4."""
    degree = exponent.denominator
    tops = [_exact_root(each, degree) for each in (base.numerator, base.denominator)]
    if None in tops or _bits(base) * abs(exponent.numerator) > MAX_BITS:
        return None
    return Fraction(tops[0] or 0, tops[1] or 1) ** exponent.numerator


def _exact_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(value)
    elif value.bit_length() <= 1000:
        root = (
            round(value ** (1 / degree))
            if value.bit_length() < 50
            else _integer_root(value, degree)
        )
    else:
        return None
    return root if root**degree == value else None


def _integer_root(value: int, degree: int) -> int:
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def _check_magnitude(logarithm: Any) -> None:
    """Raise unless a value with this logarithm has an exponent of bearable size."""
    size = abs(logarithm)
    if size and mpmath.mag(size) > _MAX_MAGNITUDE:
        raise Unevaluable("a value that is too large or too small")


def _exponential(value: Any) -> Any:
    value = _number(value)
    _check_magnitude(value)
    return mpmath.exp(value)


def _square_root(value: Any) -> Any:
    return _power(value, Fraction(1, 2))


def _root(value: Any, degree: Any) -> Any:
    if isinstance(degree, Fraction) and degree and degree.denominator == 1:
        number = _number(value)
        if degree % 2 and mpmath.im(number) == 0 and number < 0:
            return _negate(_power(_negate(value), 1 / degree))  # the real root
        return _power(value, 1 / degree)
    return _power(value, _divide(Fraction(1), degree))


def _negate(value: Any) -> Any:
    return -value


def _logarithm(value: Any, base: Any = Fraction(10)) -> Any:
    if isinstance(value, Fraction) and isinstance(base, Fraction) and value > 0 and base > 1:
        power = round(float(mpmath.log(_number(value)) / mpmath.log(_number(base))))
        if abs(power) < 1000 and base**power == value:
            return Fraction(power)
    return mpmath.log(_number(value)) / mpmath.log(_number(base))


def _natural(value: Any) -> Any:
    return mpmath.log(_number(value))


def _factorial(value: Any) -> Any:
    if isinstance(value, Fraction) and value.denominator == 1:
        if value < 0:
            raise Unevaluable("a factorial of a negative number")
        if value <= 10_000:
            return Fraction(math.factorial(int(value)))
    number = _number(value)
    if number and mpmath.mag(number) > _MAX_MAGNITUDE - 8:
        raise Unevaluable("a factorial that is too large")
    return mpmath.factorial(number)


def _binomial(over: Any, under: Any) -> Any:
    if all(isinstance(each, Fraction) and each.denominator == 1 for each in (over, under)):
        top, chosen = int(over), int(under)
        fewer = min(chosen, top - chosen)
        if top >= 0 and fewer * max(top.bit_length(), 1) <= MAX_BITS // 4:
            return Fraction(math.comb(top, chosen) if chosen >= 0 else 0)
    numbers = (_number(over), _number(under))
    if any(number and mpmath.mag(number) > _MAX_MAGNITUDE - 8 for number in numbers):
        raise Unevaluable("a binomial that is too large")
    return mpmath.binomial(*numbers)


def _real(value: Any) -> Any:
    number = _number(value)
    if mpmath.im(number):
        raise Unevaluable("not a real number")
    return value if isinstance(value, Fraction) else mpmath.re(number)


def _rounded(down: Callable[[Any], Any], exact: Callable[[Fraction], int]) -> Callable[[Any], Any]:
    def operation(value: Any) -> Any:
        value = _real(value)
        return Fraction(exact(value) if isinstance(value, Fraction) else int(down(value)))

    return operation


def _absolute(value: Any) -> Any:
    return abs(value)


def _function(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def operation(value: Any) -> Any:
        number = _number(value)
        if number and mpmath.mag(number) > 4 * _MAX_MAGNITUDE:
            raise Unevaluable("an argument that is too large")
        return work(number)

    return operation


def _hyperbolic(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def operation(value: Any) -> Any:
        number = _number(value)
        _check_magnitude(number)
        return work(number)

    return operation


def _of_integers(work: Callable[..., int]) -> Callable[..., Any]:
    return lambda *values: Fraction(work(*map(_integer, values)))


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": _add,
    "*": _multiply,
    "/": _divide,
    "neg": _negate,
    "^": _power,
    "sqrt": _square_root,
    "root": _root,
    "exp": _exponential,
    "ln": _natural,
    "log": _logarithm,
    "lg": _logarithm,
    "factorial": _factorial,
    "binom": _binomial,
    "abs": _absolute,
    "floor": _rounded(mpmath.floor, math.floor),
    "ceil": _rounded(mpmath.ceil, math.ceil),
    "max": lambda *values: reduce(lambda a, b: a if _real(a) >= _real(b) else b, values),
    "min": lambda *values: reduce(lambda a, b: a if _real(a) <= _real(b) else b, values),
    "gcd": _of_integers(math.gcd),
    "lcm": _of_integers(math.lcm),
    "sin": _function(mpmath.sin),
    "cos": _function(mpmath.cos),
    "tan": _function(mpmath.tan),
    "cot": _function(mpmath.cot),
    "sec": _function(mpmath.sec),
    "csc": _function(mpmath.csc),
    "arcsin": _function(mpmath.asin),
    "arccos": _function(mpmath.acos),
    "arctan": _function(mpmath.atan),
    "sinh": _hyperbolic(mpmath.sinh),
    "cosh": _hyperbolic(mpmath.cosh),
    "tanh": _hyperbolic(mpmath.tanh),
}
_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "pi": lambda: +mpmath.pi,
    "e": lambda: +mpmath.e,
    "i": lambda: mpmath.mpc(0, 1),
}
CONSTANTS = frozenset(_CONSTANTS)
