"""Comparing expressions with math-verify 0.9.0.

Only `services.rewards.mathematics.child` imports this: sympy can take any time and memory,
and math-verify's own time limits are signals, which threads cannot have.
"""

import logging
import re

from math_verify import (  # type: ignore[import-untyped]
    LatexExtractionConfig,
    parse,
    verify,
)

logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that it has no time limit

_WORD = re.compile(r"[^\W\d_]{3}")
_DIGIT = re.compile(r"\d")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{([^{}]*)\}")
# LaTeX alone: what reads plain expressions evaluates them as Python.
_LATEX = [LatexExtractionConfig(boxed_match_priority=0)]


def are_equal(gold: str, answer: str) -> bool:
    """Whether an answer means the same as the gold; both as they stand in a box.

    A gold of words is compared as text, without regard to case and white space: as a product of
    letters "tea" would equal "eat".
    """
    words = _TEXT.sub(r"\1", gold)
    if _WORD.search(_COMMAND.sub("", words)) and not _DIGIT.search(words):
        return words.casefold().split() == _TEXT.sub(r"\1", answer).casefold().split()
    parsed = [
        parse(
            f"\\boxed{{{text}}}",
            extraction_config=_LATEX,
            fallback_mode="no_fallback",
            parsing_timeout=None,
        )
        for text in (gold, answer)
    ]
    return bool(verify(parsed[0], parsed[1], timeout_seconds=None))
