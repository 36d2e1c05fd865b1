"""The programs that both servers run, and their expected output."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

TIME_LIMIT = 10.0
"""Seconds to compile, and again to run; a client waits for their sum and ten more."""
PATIENCE = 2 * TIME_LIMIT + 10.0

_PRINT = "print(1+1)\n"

_NUMPY = """\
import numpy as np

matrix = np.arange(10_000.0).reshape(100, 100)
print(int(np.trace(matrix @ matrix)))
"""

_SYMPY = """\
from sympy import diff, exp, sin, solve, symbols

x = symbols("x")
print(solve(x**2 - 5*x + 6, x), diff(exp(x) * sin(x), x))
"""

_CPP = """\
#include <iostream>
#include <numeric>
#include <vector>

int main() {
    std::vector<long> numbers;
    for (long number; std::cin >> number;) numbers.push_back(number);
    std::cout << std::accumulate(numbers.begin(), numbers.end(), 0L) << std::endl;
}
"""


@dataclass(frozen=True)
class Program:
    """A row of the table; ``unique`` makes all sources differ, so that the compile cache never
    hits.
    """

    name: str
    language: str
    code: str
    stdout: str
    stdin: str | None = None
    unique: bool = False

    def bodies(self, label: str) -> Iterator[bytes]:
        """Endless request bodies like those of tool clients; ``label`` must be unique."""
        body = {
            "code": self.code,
            "language": self.language,
            "compile_timeout": TIME_LIMIT,
            "run_timeout": TIME_LIMIT,
            "memory_limit_MB": 1024,
            "stdin": self.stdin,
            "files": {},
            "fetch_files": [],
        }
        constant = json.dumps(body).encode()
        number = 0
        while True:
            if self.unique:
                number += 1
                varied = {**body, "code": f"{self.code}// {label} {number}\n"}
                yield json.dumps(varied).encode()
            else:
                yield constant


PROGRAMS = {
    program.name: program
    for program in (
        Program("print", "python", _PRINT, "2\n"),
        Program("numpy", "python", _NUMPY, "251616502500\n"),
        Program("sympy", "python", _SYMPY, "[2, 3] exp(x)*sin(x) + exp(x)*cos(x)\n"),
        Program("cpp", "cpp", _CPP, "42\n", stdin="1 2 39\n"),
        Program("cpp-unique", "cpp", _CPP, "42\n", stdin="1 2 39\n", unique=True),
    )
}
