"""Whether an answer equals a gold mathematically, with math-verify 0.9.0.

Only `services.rewards.mathematics.child` imports this: sympy may take any time and memory, and
math-verify's own time limits are signals, which do not work in threads.
"""

import logging
import re
from typing import Any

import sympy
from math_verify import (  # type: ignore[import-untyped]
    LatexExtractionConfig,
    parse,
    verify,
)

from services.rewards.mathematics.numbers import read_quantity

logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that it has no time limit

_WORD = re.compile(r"[^\W\d_]{3}")
_DIGIT = re.compile(r"\d")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{([^{}]*)\}")
_EMPTY = re.compile(r"\\varnothing|\u2205|\\\{\s*\\\}")
_DEGREES = re.compile(
    r"(\\(?:sin|cos|tan|cot|sec|csc))\s*[({]?\s*(\d+(?:\.\d+)?)\s*\^\s*\{?\s*\\circ\s*\}?\s*[)}]?"
)
_INEQUALITY = re.compile(r"[<>]|\\l[et]|\\g[et]|\u2264|\u2265")
# LaTeX alone: the extraction of plain expressions evaluates them as Python.
_LATEX = [LatexExtractionConfig(boxed_match_priority=0)]


def are_equal(gold: str, answer: str, *, ordered: bool = False) -> bool:
    """Whether an answer means the same as the gold; both without their box.

    A gold that is a number is equal to a number alone: an answer that leaves the arithmetic to
    the reader (``81 + 535``) is wrong. A gold of words is compared as text, ignoring case and
    white space: as a product of letters "tea" would equal "eat". With ``ordered``, lists equal
    only in the same order.
    """
    words = _TEXT.sub(r"\1", gold)
    if _WORD.search(_COMMAND.sub("", words)) and not _DIGIT.search(words):
        return words.casefold().split() == _TEXT.sub(r"\1", answer).casefold().split()
    expected, given = read_quantity(gold), read_quantity(answer)
    if expected is not None:
        return given is not None and expected.equals(given)
    if ordered and len(golds := _items(gold)) > 1:
        answers = _items(answer)
        pairs = zip(golds, answers, strict=False)
        return len(golds) == len(answers) and all(are_equal(*pair) for pair in pairs)
    return _mean_the_same(_parsed(gold), _parsed(answer), is_rational=given is not None) or (
        # math-verify reads an inequality as a set in the gold only.
        bool(_INEQUALITY.search(answer))
        and not _INEQUALITY.search(gold)
        and bool(verify(_parsed(answer), _parsed(gold), timeout_seconds=None))
    )


def _mean_the_same(gold: list[Any], answer: list[Any], *, is_rational: bool) -> bool:
    if is_rational and any(getattr(each, "is_rational", None) is False for each in gold):
        return False  # no finite decimal is pi
    if verify(gold, answer, timeout_seconds=None):
        return True
    pairs = [(a, b) for a in gold[:1] for b in answer[:1]]
    return any(_is_same_expression(a, b) for a, b in pairs)


def _is_same_expression(gold: Any, answer: Any) -> bool:
    if not isinstance(gold, sympy.Expr) or not isinstance(answer, sympy.Expr):
        return False
    imaginary = {symbol: sympy.I for symbol in gold.free_symbols if str(symbol) == "i"}
    return bool(sympy.simplify((gold - answer).subs(imaginary)) == 0)


def _parsed(text: str) -> list[Any]:
    text = _EMPTY.sub(r"\\emptyset", text)
    text = _DEGREES.sub(r"\1(\\frac{\2 \\pi}{180})", text)
    parsed: list[Any] = parse(
        f"\\boxed{{{text}}}",
        extraction_config=_LATEX,
        fallback_mode="no_fallback",
        parsing_timeout=None,
    )
    return parsed


def _items(text: str) -> list[str]:
    """The parts of a list, with or without one pair of brackets around it."""
    text = re.sub(r"\\(?:left|right)|\\(?=[{}])", "", text).strip()
    if text[:1] in {"(", "[", "{"} and text[-1:] in {")", "]", "}"}:
        text = text[1:-1]
    items, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
    return [*items, text[start:]]
