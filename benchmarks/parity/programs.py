"""Programs with tests, and programs that are almost right: mutants whose results really differ.

The gold of a form is the tests of a row. Half of the problems call a function, as LiveCodeBench's
functional tests do; the other half read standard input and print.
"""

import ast
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from benchmarks.parity.form import Form
from benchmarks.parity.runs import Crashed, called, printed

Numbers = Sequence[int]

FUNCTIONS = (
    "def f(xs):\n    return [x * 2 + 1 for x in xs if x > 3]",
    "def f(xs):\n    return sum(xs[1:]) - xs[0]",
    "def f(xs):\n    return sorted(set(xs))[:4]",
    "def f(xs):\n    return [[x, xs.count(x)] for x in xs if x % 2 == 0]",
    "def f(xs):\n    best = 0\n    for x in xs:\n        best = max(best, x + 1)\n    return best",
    "def f(xs):\n    return any(x < 2 for x in xs) and len(xs) > 3",
    "def f(xs):\n    return '-'.join(str(x + 1) for x in xs)",
    "def f(xs):\n    return {str(x): x * x for x in xs}",
    "def f(xs):\n    return sum(xs) / len(xs)",
    "def f(xs):\n    return [xs[i] - xs[i - 1] for i in range(1, len(xs))]",
)
SCRIPTS = (
    "xs = list(map(int, input().split()))\nprint(sum(x for x in xs if x > 2))",
    "xs = list(map(int, input().split()))\nprint(*sorted(xs)[1:])",
    "xs = list(map(int, input().split()))\nfor x in xs:\n    print(x, x * 3 - 1)",
    "xs = list(map(int, input().split()))\nprint('YES' if sum(xs) % 2 == 0 else 'NO')",
    "xs = list(map(int, input().split()))\nprint(len(xs))\nprint(max(xs) - min(xs))",
    "xs = list(map(int, input().split()))\nprint(f'{sum(xs) / len(xs):.6f}')",
    "xs = list(map(int, input().split()))\nprint(''.join(chr(97 + x) for x in xs))",
)
TESTS = 4
"""Tests of a problem."""


def forms(source: random.Random) -> Iterator[Form]:
    """Every right program in a few writings, with fresh tests each."""
    for problem in PROBLEMS:
        for kind, template in _WRITINGS.items():
            for _ in range(3):
                tests = problem.tests(_inputs(source))
                yield Form("tests", kind, template.format(problem.program), json.dumps(tests))


def near_misses(source: random.Random) -> Iterator[Form]:
    """Endless programs of which at least one result differs from the right one."""
    while True:
        problem, inputs = source.choice(PROBLEMS), _inputs(source)
        mutant = source.choice((_mutant, _result_mutant))(problem, source)
        try:
            results = [problem.run(mutant, each) for each in inputs]
        except Crashed:
            continue
        right = [problem.run(problem.program, each) for each in inputs]
        if _meaning(results) != _meaning(right):
            gold = json.dumps(problem.tests(inputs))
            text = f"```python\n{mutant}\n```"
            yield Form("tests", "near miss", text, gold, is_right=False)


@dataclass(frozen=True)
class Problem:
    """A right program; it is a function ``f``, or reads numbers and prints."""

    program: str
    is_function: bool

    def run(self, program: str, numbers: Numbers) -> Any:
        """The result of a program: a value, or lines of words; raises `Crashed`."""
        if self.is_function:
            return called(program, "f", [list(numbers)])
        lines = printed(program, _line(numbers)).rstrip().split("\n")
        return [[_number(word) for word in line.split()] for line in lines]

    def tests(self, inputs: Sequence[Numbers]) -> Any:
        """The tests of a row, in a published format."""
        if self.is_function:
            outputs = [called(self.program, "f", [list(each)]) for each in inputs]
            return {"fn_name": "f", "inputs": [[list(each)] for each in inputs], "outputs": outputs}
        lines = [_line(each) for each in inputs]
        return [{"input": line, "output": printed(self.program, line)} for line in lines]


PROBLEMS = (
    *(Problem(program, is_function=True) for program in FUNCTIONS),
    *(Problem(program, is_function=False) for program in SCRIPTS),
)
_WRITINGS = {
    "alone": "```python\n{0}\n```",
    "main guard": "```python\n{0}\nif __name__ == '__main__' and False:\n    exit(1)\n```",
    "draft before": "```python\nraise SystemExit\n```\nBetter:\n```py\n{0}\n```\nIt is linear.",
}


def _inputs(source: random.Random) -> list[Numbers]:
    return [[source.randint(0, 9) for _ in range(source.randint(2, 7))] for _ in range(TESTS)]


def _line(numbers: Numbers) -> str:
    return " ".join(map(str, numbers)) + "\n"


def _number(word: str) -> Any:
    return Fraction(word) if _NUMBER.fullmatch(word) else word


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?")


def _meaning(value: Any) -> Any:
    """What makes two results the same: numbers by value, but true is not 1 and text no number."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float | Fraction):
        return Fraction(value)
    if isinstance(value, list | tuple):
        return ["list", *map(_meaning, value)]
    if isinstance(value, dict):
        return {str(key): _meaning(each) for key, each in value.items()}
    return ["text", value] if isinstance(value, str) else repr(value)


def _mutant(problem: Problem, source: random.Random) -> str:
    """The program with one number, operator or comparison changed."""
    tree = ast.parse(problem.program)
    kinds = (ast.Constant, ast.BinOp, ast.Compare)
    places: list[Any] = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    place = source.choice(places)
    match place:
        case ast.Constant(value=int(value)):
            place.value = value + source.choice((-1, 1, 2))
        case ast.Constant(value=str(value)):
            place.value = source.choice((value.lower(), value + " ", value[:-1], value + "."))
        case ast.BinOp():
            place.op = source.choice((ast.Add(), ast.Sub(), ast.Mult(), ast.FloorDiv()))
        case ast.Compare():
            place.ops = [source.choice((ast.Lt(), ast.LtE(), ast.Gt(), ast.GtE(), ast.NotEq()))]
    return ast.unparse(tree)


def _result_mutant(problem: Problem, source: random.Random) -> str:
    """The program whose result is changed at its end."""
    if problem.is_function:
        return _CHANGED.format(program=problem.program) + source.choice(_RESULTS)
    return _PRINTED.format(problem.program, source.choice(_PRINTS))


_CHANGED = "{program}\ng = f\ndef f(xs):\n    r = g(xs)\n    return "
_RESULTS = (
    "str(r)",
    "[r, r]",
    "bool(r)",
    "r[:-1] if isinstance(r, (list, str)) else -r",
    "r[::-1] if isinstance(r, (list, str)) else None",
    "[*r, 0] if isinstance(r, list) else r + 1 if isinstance(r, int) else 0",
    "r if xs[0] % 2 else None",
    "r * 1.0001 if isinstance(r, float) else 1",
)
_PRINTED = (
    "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n"
    "    exec({0!r})\nt = out.getvalue()\n{1}"
)
_PRINTS = (
    "print(t.replace('\\n', ' '))",
    "print(t.replace(' ', ''))",
    "print(t.rstrip() + '.')",
    "print('Answer:', t)",
    "print('\\n'.join(t.split()[::-1]))",
    "print(t[:-2])",
    "print(t.lower().rstrip(), t.split()[0])",
    "print(t, t)",
    "print('\\n'.join(t.split('\\n')[:-2]))",
    "print(t.replace('1', '1 '))",
    "print(repr(t))",
)
