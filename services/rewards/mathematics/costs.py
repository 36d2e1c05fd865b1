"""Estimates from its text alone what it costs to evaluate an expression with sympy."""

import math
import re

MAX_DIGITS = 20_000
"""Maximum digits of the result of a power of numbers."""
MAX_EXPONENT = 10_000

_NUMBER = r"(?:\d+(?:\.\d+)?|#[\d.]+#)"  # between hashes: the decimal logarithm of a power
_POWER = re.compile(rf"({_NUMBER})\s*\^\s*({_NUMBER})")
_GROUP = re.compile(rf"[({{]\s*({_NUMBER})\s*[)}}]")
_HUGE_EXPONENT = re.compile(r"\^\s*[({]*\s*[-+]?\d{5,}")
_HUGE_FACTORIAL = re.compile(r"\d{5,}\s*[)}]*\s*!|!\s*[)}]*\s*!")
_COSTLY = re.compile(
    r"!|\\(?:sum|prod|int|lim|binom|log|ln|Gamma)|\^\s*[({]*\s*[-+]?\d{3,}|\^\s*\{[^{}]*\^"
)


def is_refused(text: str) -> bool:
    """Whether evaluating the expression could take longer than any comparison may."""
    text = re.sub(r"\\(?:left|right)", "", text)
    if _HUGE_EXPONENT.search(text) or _HUGE_FACTORIAL.search(text):
        return True
    while True:
        text, groups = _GROUP.subn(r"\1", text)
        power = _POWER.search(text)
        if power is None and not groups:
            return False
        if power is not None:
            exponent = 10.0 ** min(_logarithm(power[2]), 10.0)
            digits = _logarithm(power[1]) * exponent
            if exponent > MAX_EXPONENT or digits > MAX_DIGITS:
                return True
            text = f"{text[: power.start()]}#{max(digits, 0.0):.6f}#{text[power.end() :]}"


def is_costly(text: str) -> bool:
    """Whether the expression should queue behind others that may take seconds."""
    return _COSTLY.search(text) is not None


def _logarithm(number: str) -> float:
    if number.startswith("#"):
        return float(number.strip("#"))
    return math.log10(max(float(number), 1.0))
