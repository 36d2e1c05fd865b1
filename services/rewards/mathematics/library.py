"""Compares what the grammar of `syntax` lacks, such as integrals, with math-verify 0.9.0.

It is imported where it is needed only: it takes a second, and any time and memory afterwards.
"""

import logging
from typing import Any

from math_verify import (  # type: ignore[import-untyped]  # has no types
    LatexExtractionConfig,
    parse,
    verify,
)

from services.rewards.mathematics.costs import is_refused

logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that it has no time limit

# LaTeX alone: the extraction of plain expressions evaluates them as Python.
_LATEX = [LatexExtractionConfig(boxed_match_priority=0)]
_SIGNS = str.maketrans(
    {
        **{"⦃": "\\{", "⦄": "\\}", "⊔": "\\cup ", "∩": "\\cap ", "⊖": "\\setminus "},
        **{"∞": "\\infty ", "±": "\\pm ", "∓": "\\mp ", "°": "^\\circ ", "%": "\\%"},
    }
)


def mean_the_same(gold: str, answer: str) -> bool:
    """Whether two formulas in the notation of `notation` are equal."""
    texts = [text.translate(_SIGNS).replace(r"\newrow", r"\\") for text in (gold, answer)]
    if any(map(is_refused, texts)):
        return False
    expected, given = map(_parsed, texts)
    return bool(expected and given and verify(expected, given, timeout_seconds=None))


def _parsed(text: str) -> list[Any]:
    parsed: list[Any] = parse(
        f"\\boxed{{{text}}}",
        extraction_config=_LATEX,
        fallback_mode="no_fallback",
        parsing_timeout=None,
    )
    return parsed
