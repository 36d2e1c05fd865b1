"""What is around an answer without being part of it: emphasis, quotes, wide characters."""

import re
from typing import Final

IN_LINE: Final = r"[^\S\n]"
"""White space that does not end a line, as a regular expression: no value goes on in the next."""

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_MINUS = dict.fromkeys(map(ord, "\u2212\u2013\u2010\u2011\u2012\ufe63"), "-")
_QUOTES = dict.fromkeys(
    map(ord, '"`*$\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u300c\u300d'), None
)
_OTHERS = {0x3002: ".", 0x3001: ",", 0x3000: " ", 0x00A0: " ", 0x3010: "(", 0x3011: ")"}
_CHARACTERS = {**_WIDE, **_QUOTES, **_OTHERS}

TEXT_COMMAND = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal|up)?|math(?:rm|bf|it|sf|tt|bb|cal)|mbox|bm|boldsymbol"
    r"|operatorname)\s*+\*?\s*+\{([^{}]*+)\}"
)
_SWITCH = re.compile(r"\\(?:rm|bf|it|sf|tt|displaystyle|textstyle|large|Large|boldmath)\b\s*")
_MATH = re.compile(r"\\[()\[\]]")
_SPACE = re.compile(r"\\[,;:! ]|\\q?quad\b|~|\{\s*\}")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])")
_HEADING = re.compile(r"^[ \t]*(?:#+|>)[ \t]*", re.MULTILINE)
_APOSTROPHE = re.compile(r"(?<![A-Za-z])'|'(?![A-Za-z])")


def ascii_marks(text: str) -> str:
    """A text whose full-width characters and minus signs are those of ASCII."""
    return text.translate(_WIDE).translate(_MINUS)


def without_text_commands(text: str) -> str:
    """A text without LaTeX's commands for text and fonts, whose contents stay."""
    for _ in range(3):  # nested: \\textbf{\\text{B}}
        text, number = TEXT_COMMAND.subn(r"\1", text)
        if not number:
            break
    return _SWITCH.sub("", text)


def plain(text: str) -> str:
    """A text without Markdown, quotes, the marks of formulas and the commands of fonts."""
    text = without_text_commands(text)
    text = _SPACE.sub(" ", _MATH.sub(" ", text)).translate(_CHARACTERS)
    return _APOSTROPHE.sub("", _EMPHASIS.sub("", _HEADING.sub("", text)))
