"""The formula of a multi grader.

    formula = term (("+" | "-") term)*
    term    = factor (("*" | "/") factor)*
    factor  = ("+" | "-") factor | power
    power   = atom (("^" | "**") factor)?
    atom    = number | name | name "(" formula ("," formula)* ")" | "(" formula ")"

All values are floats, so that no formula takes long.
"""

import asyncio
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from services.contracts.errors import InvalidRequest
from services.rewards.interface import Component, RewardFailed, RewardFailureKind, Sample, Score

MAX_DEPTH = 50

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(\*\*|[-+*/^(),]))")

Values = Mapping[str, float]
Expression = Callable[[Values], float]
Operation = Callable[[float, float], float]

_OPERATORS: Mapping[str, Operation] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}

_FUNCTIONS: Mapping[str, tuple[Callable[..., float], range]] = {
    "min": (min, range(1, 101)),
    "max": (max, range(1, 101)),
    "abs": (abs, range(1, 2)),
    "floor": (math.floor, range(1, 2)),
    "ceil": (math.ceil, range(1, 2)),
    "exp": (math.exp, range(1, 2)),
    "sqrt": (math.sqrt, range(1, 2)),
    "log": (math.log, range(1, 2)),
}


class FormulaError(InvalidRequest):
    """The text is not a formula; the message says where."""

    code = "formula_parse_error"


@dataclass(frozen=True)
class Formula:
    """A parsed formula; ``names`` are its variables."""

    names: frozenset[str]
    expression: Expression

    @classmethod
    def parse(cls, text: str) -> "Formula":
        """Parse a formula; raises `FormulaError`."""
        return _Parser(text).formula()

    def evaluate(self, values: Values) -> float:
        """Its value, a finite number; raises `ArithmeticError` or `ValueError` without one."""
        value = float(self.expression(values))
        if not math.isfinite(value):
            raise ArithmeticError("the result is not a finite number")
        return value


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._position = 0
        self._depth = 0
        self._names: set[str] = set()

    def formula(self) -> Formula:
        expression = self._sum()
        if self._next is not None:
            raise FormulaError(f"{self._next!r} is not expected there")
        return Formula(frozenset(self._names), expression)

    @property
    def _next(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        token = self._next
        if token is None or token not in wanted:
            return None
        self._position += 1
        return token

    def _sum(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormulaError(f"is nested more than {MAX_DEPTH} deep")
        first, others = self._product(), []
        while symbol := self._take("+", "-"):
            others.append((_OPERATORS[symbol], self._product()))
        self._depth -= 1
        return _chain(first, others)

    def _product(self) -> Expression:
        first, others = self._factor(), []
        while symbol := self._take("*", "/"):
            others.append((_OPERATORS[symbol], self._factor()))
        return _chain(first, others)

    def _factor(self) -> Expression:
        is_negative = False
        while sign := self._take("+", "-"):
            is_negative ^= sign == "-"
        value = self._power()
        return (lambda values: -value(values)) if is_negative else value

    def _power(self) -> Expression:
        base = self._atom()
        if self._take("^", "**") is None:
            return base
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormulaError(f"is nested more than {MAX_DEPTH} deep")
        exponent = self._factor()
        self._depth -= 1
        return _chain(base, [(math.pow, exponent)])

    def _atom(self) -> Expression:
        token = self._next
        if token is None:
            raise FormulaError("ends too early")
        self._position += 1
        if token[0].isdigit() or token[0] == ".":
            number = float(token)
            return lambda _values: number
        if token == "(":  # noqa: S105 - a token of the formula
            inner = self._sum()
            self._close()
            return inner
        if not (token[0].isalpha() or token[0] == "_"):
            raise FormulaError(f"{token!r} is not expected there")
        if self._take("("):
            return self._call(token)
        self._names.add(token)
        return lambda values: values[token]

    def _call(self, name: str) -> Expression:
        if name not in _FUNCTIONS:
            raise FormulaError(f"{name!r} is not a function; known are {', '.join(_FUNCTIONS)}")
        function, counts = _FUNCTIONS[name]
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        if len(arguments) not in counts:
            raise FormulaError(f"{name} does not take {len(arguments)} arguments")
        if len(arguments) == 1 and name in ("min", "max"):
            return arguments[0]
        return lambda values: function(*(argument(values) for argument in arguments))

    def _close(self) -> None:
        if self._take(")") is None:
            raise FormulaError("a parenthesis is not closed")


def _chain(first: Expression, others: Sequence[tuple[Operation, Expression]]) -> Expression:
    """Left-associative, in a loop: a long sum must not recurse deeply."""

    def value(values: Values) -> float:
        result = first(values)
        for operation, operand in others:
            result = operation(result, operand(values))
        return result

    return value if others else first


def _tokenize(text: str) -> list[str]:
    tokens: list[str] = []
    text, position = text.rstrip(), 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"{text[position : position + 20].strip()!r} cannot be read")
        tokens.append(match[1] or match[2] or match[3])
        position = match.end()
    return tokens


class Multi:
    """The value of a formula over the scores of all graders."""

    def __init__(self, formula: Formula, graders: Mapping[str, Component]) -> None:
        self._formula = formula
        self._graders = graders

    async def score(self, sample: Sample) -> Score:
        """Run all graders concurrently and evaluate the formula."""
        async with asyncio.TaskGroup() as group:
            asked = {
                name: group.create_task(self._ask(name, grader, sample))
                for name, grader in self._graders.items()
            }
        answers = {name: task.result() for name, task in asked.items()}
        failed = [answer for answer in answers.values() if isinstance(answer, RewardFailed)]
        if failed:
            raise failed[0]
        scores = {name: answer for name, answer in answers.items() if isinstance(answer, Score)}
        return self._combine(scores)

    async def _ask(self, name: str, grader: Component, sample: Sample) -> Score | RewardFailed:
        try:
            return await grader.score(sample)
        except RewardFailed as error:
            return RewardFailed(f"{name}: {error.message}", error.kind, error.cause)

    def _combine(self, scores: Mapping[str, Score]) -> Score:
        parts = {name: score.value for name, score in scores.items()}
        tokens: Counter[str] = Counter()
        for score in scores.values():
            tokens.update(score.tokens)
        try:
            value = self._formula.evaluate(parts)
        except (ArithmeticError, ValueError) as error:
            message = f"calculate_output cannot be computed: {error}"
            raise RewardFailed(message, RewardFailureKind.OTHER) from error
        return Score(value, parts=parts, tokens=tokens)
