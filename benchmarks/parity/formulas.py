"""Formulas with equal ones in another writing, and with unequal ones that look like them."""

import random
from collections.abc import Callable, Iterator
from math import comb
from typing import NamedTuple

from benchmarks.parity.form import Form

Pair = tuple[str, str]
"""A gold and an answer."""


class Drawn(NamedTuple):
    """The numbers of a pair."""

    a: int
    b: int
    c: int


WORDS = ("east", "increasing", "decreasing", "Tuesday", "parabola", "ellipse", "none")


def _digits(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = str(digit) + digits
    return digits or "0"


EQUAL: dict[str, Callable[[Drawn], Pair]] = {
    "fraction": lambda n: (rf"\frac{{{n.a}}}{{{n.b}}}", rf"\dfrac{{{n.a * n.c}}}{{{n.b * n.c}}}"),
    "fraction and decimal": lambda n: (rf"\frac{{{n.a}}}{{4}}", f"{n.a / 4}"),
    "mixed number": lambda n: (rf"\frac{{{n.a * 7 + 3}}}{{7}}", rf"{n.a}\frac{{3}}{{7}}"),
    "root": lambda n: (rf"{n.a}\sqrt{{{n.b}}}", rf"\sqrt{{{n.a * n.a * n.b}}}"),
    "root of fraction": lambda n: (
        (rf"\frac{{1}}{{\sqrt{{{n.b}}}}}", rf"\frac{{\sqrt{n.b}}}{{{n.b}}}")
        if n.b < 10
        else (rf"\frac{{1}}{{\sqrt{{{n.b}}}}}", rf"\frac{{\sqrt{{{n.b}}}}}{{{n.b}}}")
    ),
    "power": lambda n: (rf"{n.a}^{{{n.c}}}", f"{n.a**n.c}"),
    "product": lambda n: (
        rf"(x+{n.a})(x-{n.b})",
        f"x^2+{n.a - n.b}x-{n.a * n.b}".replace("+-", "-"),
    ),
    "sum of names": lambda n: (f"{n.a}x+{n.b}y", f"{n.b}y + {n.a}x"),
    "trigonometry": lambda n: (rf"\sin^2 {n.a}x", rf"1-\cos^2({n.a}x)"),
    "degrees": lambda n: (rf"\sin {n.a}^\circ", rf"\cos({90 - n.a}^\circ)"),
    "logarithm": lambda n: (rf"\ln {n.a * n.b}", rf"\ln {n.a} + \ln {n.b}"),
    "logarithm of a base": lambda n: (rf"\log_2 {2**n.c}", f"{n.c}"),
    "binomial": lambda n: (rf"\binom{{{n.a + n.c}}}{{{n.c}}}", f"{comb(n.a + n.c, n.c)}"),
    "factorial": lambda n: (rf"\frac{{1}}{{{n.a}!}}", rf"\frac{{1}}{{{n.a} \cdot {n.a - 1}!}}"),
    "series": lambda n: (rf"\sum_{{k=1}}^{{{n.a}}} k", f"{n.a * (n.a + 1) // 2}"),
    "complex": lambda n: (f"{n.a}+{n.b}i", f"{n.b}i+{n.a}"),
    "equation": lambda n: (f"{n.a}x+{n.b}y={n.c}", f"{2 * n.a}x+{2 * n.b}y-{2 * n.c}=0"),
    "circle": lambda n: (f"x^2+y^2={n.a}", f"x^2+y^2-{n.a}=0"),
    "solved": lambda n: (f"y={n.a}x+{n.b}", f"y = {n.b} + {n.a}x"),
    "assigned": lambda n: (f"{n.a}", f"x = {n.a}"),
    "chain": lambda n: (f"{n.a}", rf"x = \frac{{{n.a * n.c}}}{{{n.c}}} = {n.a}"),
    "function": lambda n: (f"{n.a}x+{n.b}", f"f(x) = {n.a}x + {n.b}"),
    "interval": lambda n: (f"({n.a},{n.a + n.b}]", rf"{n.a} < x \le {n.a + n.b}"),
    "ray": lambda n: (rf"[{n.a},\infty)", rf"x \geq {n.a}"),
    "hole": lambda n: (rf"x \neq {n.a}", rf"(-\infty,{n.a})\cup({n.a},\infty)"),
    "union": lambda n: (
        rf"(-\infty,{n.a})\cup({n.a + n.b},\infty)",
        rf"x<{n.a} \text{{ or }} x>{n.a + n.b}",
    ),
    "pair": lambda n: (f"({n.a},{n.b})", rf"\left({n.a}, {n.b}\right)"),
    "list": lambda n: (f"{n.a}, {n.a + n.b}", f"{n.a + n.b}, {n.a}"),
    "set": lambda n: (rf"\{{{n.a}, {n.a + n.b}\}}", rf"\{{{n.a + n.b}, {n.a}\}}"),
    "both signs": lambda n: (
        rf"{n.a} \pm \sqrt{{{n.b}}}",
        rf"{n.a}+\sqrt{{{n.b}}}, {n.a}-\sqrt{{{n.b}}}",
    ),
    "base": lambda n: (f"{_digits(n.a, 3)}_3", f"{_digits(n.a, 3)}_{{3}}"),
    "matrix": lambda n: (
        rf"\begin{{pmatrix}} {n.a} & {n.b} \\ {n.c} & 1 \end{{pmatrix}}",
        rf"\begin{{bmatrix}}{n.a}&{n.b}\\{n.c}&1\end{{bmatrix}}",
    ),
    "unit": lambda n: (rf"{n.a}\sqrt{{{n.b}}} \text{{ cm}}", rf"{n.a}\sqrt{{{n.b}}}"),
    "angle": lambda n: (rf"{n.a}^\circ", f"{n.a}"),
    "words": lambda n: (rf"\text{{{WORDS[n.c]}}}", rf"\textbf{{{WORDS[n.c].title()}}}"),
    "spacing": lambda n: (rf"\frac{{{n.a}\pi}}{{{n.b}}}", rf"\frac{{\,{n.a}\,\pi}}{{ {n.b} }}"),
}
UNEQUAL: dict[str, Callable[[Drawn], Pair]] = {
    "fraction": lambda n: (rf"\frac{{{n.a}}}{{{n.b}}}", rf"\frac{{{n.a + 1}}}{{{n.b}}}"),
    "inverse": lambda n: (rf"\frac{{{n.a}}}{{{n.a + n.b}}}", rf"\frac{{{n.a + n.b}}}{{{n.a}}}"),
    "root": lambda n: (rf"{n.a}\sqrt{{{n.b * n.b + 1}}}", rf"\sqrt{{{n.a * (n.b * n.b + 1)}}}"),
    "decimal for a root": lambda n: (rf"\sqrt{{{n.b**2 + 1}}}", f"{(n.b**2 + 1) ** 0.5}"),
    "decimal for pi": lambda n: (rf"{n.a}\pi", f"{3.14159265358979 * n.a}"),
    "power": lambda n: (rf"{n.a}^{{{n.b}}}", rf"{n.a}^{{{n.b + 1}}}"),
    "tiny": lambda n: (rf"\frac{{1}}{{{n.a + 20}!}}", rf"\frac{{1}}{{{n.a + 21}!}}"),
    "tiny powers": lambda n: (rf"2^{{-{n.a + 60}}}", rf"2^{{-{n.a + 61}}}"),
    "product": lambda n: (f"(x+{n.a})(x-{n.b})", f"(x-{n.a})(x+{n.b + n.c})"),
    "names": lambda n: (f"{n.a}x", f"{n.a}y"),
    "equation": lambda n: (f"{n.a}x+{n.b}y={n.c}", f"{n.a}x+{n.b}y={n.c + 1}"),
    "circle": lambda n: (f"x^2+y^2-{n.a}=0", f"x^2+y^2-{n.a + n.b}=0"),
    "side of an equation": lambda n: (f"x^2+y^2={n.a}", f"{n.a}"),
    "equation of other names": lambda n: (f"x+y={n.a}", f"p+q={n.a}"),
    "equation for a number": lambda n: (f"{n.a}", f"x+y={n.a}"),
    "assigned": lambda n: (f"x={n.a}", f"y={n.a}"),
    "interval": lambda n: (f"({n.a},{n.a + n.b}]", f"[{n.a},{n.a + n.b}]"),
    "ray": lambda n: (rf"[{n.a},\infty)", f"x > {n.a}"),
    "hole": lambda n: (rf"x \neq {n.a}", rf"(-\infty,{n.a})\cup({n.a + 1},\infty)"),
    "pair": lambda n: (f"({n.a},{n.a + n.b})", f"({n.a + n.b},{n.a})"),
    "part of a list": lambda n: (f"{n.a}, {n.a + n.b}", f"{n.a}"),
    "more than a list": lambda n: (f"{n.a}", f"{n.a}, {n.a + n.b}"),
    "list for a number": lambda n: (f"{n.a}{n.b + 100}", f"{n.a}, {n.b + 100}"),
    "base": lambda n: (f"{_digits(n.a, 2)}_2", f"{_digits(n.a, 2)}_3"),
    "degrees": lambda n: (rf"\sin {n.a}^\circ", rf"\sin {n.a}"),
    "matrix": lambda n: (
        rf"\begin{{pmatrix}} {n.a} & {n.b} \\ {n.c} & {n.a + n.b + n.c} \end{{pmatrix}}",
        rf"\begin{{pmatrix}} {n.a} & {n.c + n.b} \\ {n.b} & {n.a + n.b + n.c} \end{{pmatrix}}",
    ),
    "binomial": lambda n: (rf"\binom{{{n.a + 9}}}{{2}}", rf"\binom{{{n.a + 9}}}{{3}}"),
    "arithmetic": lambda n: (f"{n.a + n.b}", f"{n.a} + {n.b}"),
    "sign": lambda n: (rf"\frac{{{n.a}}}{{{n.a + n.b}}}", rf"-\frac{{{n.a}}}{{{n.a + n.b}}}"),
    "unit": lambda n: (f"{n.a} \\text{{ cm}}", f"{n.a} \\text{{ m}}"),
    "words": lambda n: (rf"\text{{{WORDS[n.c]}}}", rf"\text{{{WORDS[n.c - 1]}}}"),
    "concatenation": lambda n: (f"{n.a}{n.b}", f"{n.a} {n.b}"),
}


def forms(source: random.Random) -> Iterator[Form]:
    """Every kind of pair, fifteen times."""
    for table, is_right in ((EQUAL, True), (UNEQUAL, False)):
        for kind, make in table.items():
            for _ in range(15):
                gold, answer = make(_drawn(source))
                text = f"So it is $\\boxed{{{answer}}}$."
                yield Form("math", kind, text, gold, is_right=is_right)


def near_misses(source: random.Random) -> Iterator[Form]:
    """Endless unequal pairs."""
    makers = list(UNEQUAL.values())
    while True:
        gold, answer = source.choice(makers)(_drawn(source))
        text = f"So it is $\\boxed{{{answer}}}$."
        yield Form("math", "near miss", text, gold, is_right=False)


def _drawn(source: random.Random) -> Drawn:
    return Drawn(source.randint(2, 60), source.randint(2, 40), source.randint(2, 6))
