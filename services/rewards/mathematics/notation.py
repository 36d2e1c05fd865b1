"""Reduces LaTeX and Unicode mathematics to one notation, and splits it at its outermost signs.

In that notation every relation, set operation and bracket is one character: ``=<>≤≥≠∈±∓°``, ``⊔``,
``∩`` and ``⊖`` for unions, intersections and differences of sets, ``⦃⦄`` for the braces of sets,
``⊕`` and ``⊗`` for the words "or" and "and" between the parts of a list, and ``⋎`` and ``⋏`` for
the signs of logic that mean them.
"""

import re
from dataclasses import dataclass

from services.rewards.answers.writing import ascii_marks, plain, without_text_commands

RELATIONS = "=<>≤≥≠∈"
OPENING, CLOSING = "([{⦃", ")]}⦄"

_COMMANDS = {
    **dict.fromkeys(("le", "leq", "leqslant", "leqq"), "≤"),
    **dict.fromkeys(("ge", "geq", "geqslant", "geqq"), "≥"),
    **dict.fromkeys(("ne", "neq"), "≠"),
    **dict.fromkeys(("lt",), "<"),
    **dict.fromkeys(("gt",), ">"),
    **dict.fromkeys(("approx", "simeq", "doteq", "equiv", "coloneqq"), "="),
    **dict.fromkeys(("in",), "∈"),
    **dict.fromkeys(("cup", "bigcup"), "⊔"),
    **dict.fromkeys(("cap",), "∩"),
    **dict.fromkeys(("setminus", "backslash"), "⊖"),
    **dict.fromkeys(("infty",), "∞"),
    **dict.fromkeys(("pm",), "±"),
    **dict.fromkeys(("mp",), "∓"),
    **dict.fromkeys(("cdot", "times", "ast"), "*"),
    **dict.fromkeys(("div",), "/"),
    **dict.fromkeys(("degree",), "°"),
    **dict.fromkeys(("lvert", "rvert", "vert", "mid"), "|"),
    **dict.fromkeys(("langle",), "("),
    **dict.fromkeys(("rangle",), ")"),
    **dict.fromkeys(("lbrace",), "⦃"),
    **dict.fromkeys(("rbrace",), "⦄"),
    **dict.fromkeys(("lor", "vee"), "⋎"),
    **dict.fromkeys(("land", "wedge"), "⋏"),
    **dict.fromkeys(("emptyset", "varnothing"), "⦃⦄"),
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), r"\frac "),
    **dict.fromkeys(("dbinom", "tbinom"), r"\binom "),
    **dict.fromkeys(
        ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "limits"),
        "",
    ),
    **dict.fromkeys(("rm", "bf", "it", "quad", "qquad", "textstyle", "nolimits"), " "),
}
_COMMAND = re.compile(r"\\([A-Za-z]+)(?:(?<=left)\.|(?<=right)\.)?")
_CHARACTERS = str.maketrans(
    {
        **{"\u2264": "≤", "\u2265": "≥", "\u2260": "≠", "\u2248": "=", "\u2261": "="},
        **{"\u00d7": "*", "\u00b7": "*", "\u22c5": "*", "\u00f7": "/", "\u03c0": r"\pi "},
        **{"\u222a": "⊔", "\u2216": "⊖", "\u2228": "⋎", "\u2227": "⋏", "\u2205": "⦃⦄"},
        **{"\u221a": r"\sqrt ", "\u00b2": "^2", "\u00b3": "^3", "$": None},
        **{"\u00bd": r"\frac12 ", "\u00bc": r"\frac14 ", "\u00be": r"\frac34 ", "\u2032": "'"},
        **{"\u2220": r"\angle "},
    }
)
_CIRCLE = re.compile(r"\^\s*\{?\s*\\circ\b\s*\}?|\\circ\b")
_LINK = re.compile(r"\\(?:text|textrm|textbf|mathrm|mbox)\s*\{\s*(or|and)\s*\}|\b(or|and)\b")
_THIN = r"(?:\\[,;:! ]|~|[\u2009\u202f\u00a0\u2006\u2008])"
_GROUP = re.compile(
    rf"(?<=\d)(?:\{{,\}}|,\\!\s{{0,3}}|,?{_THIN}+(?<!,))(?=\d{{3}}(?!\d))|(?<=\d)\{{,\}}(?=\d{{3}})"
)
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_REAL = re.compile(r"\\math(?:bb|bf|cal|(?P<rm>rm))\s*\{?\s*(?P<set>[RZNQC])\s*\}?")
_NUMBER_BEFORE = re.compile(r"(?:[\d})°]|\\circ)(?:\s|~|\\[,;:! ])*\Z")
_DIGITS = re.compile(r"\\frac\s*(\d)\s*(\d)")
_MIXED = re.compile(r"(?<![\d.,/^_}])(\d+)\s+([1-9]\d?)\s*/\s*(\d+)(?![\d.])")
_ROOT = re.compile(r"\u221a\s*(\d+(?:\.\d+)?|[A-Za-z])")


def normal(text: str) -> str:
    """A formula in the notation of this module."""
    text = text.replace("\\$", "").replace("\\\\", r"\newrow ")
    text = _ROOT.sub(r"\\sqrt{\1}", _REAL.sub(_field, ascii_marks(text)))
    text = text.translate(_CHARACTERS)
    text = _CIRCLE.sub("°", text)
    text = _LINK.sub(lambda found: " ⊕ " if "or" in found.groups() else " ⊗ ", text)
    text = _GROUP.sub("", text).replace("\\%", "%")
    text = text.replace("\\{", "⦃").replace("\\}", "⦄").replace("\\|", "|")
    text = _COMMAND.sub(lambda found: _COMMANDS.get(found[1], found[0]), text)
    text = _DIGITS.sub(r"\\frac{\1}{\2}", re.sub(r"\\not\s*=", "≠", text))
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", re.sub(_THIN, " ", text)).replace("**", "^")
    text = text.replace("<=", "≤").replace(">=", "≥").replace("!=", "≠")
    text = _THOUSANDS.sub(_joined_outside, text).strip().removesuffix(".").strip()
    return text.removeprefix("=").lstrip()  # "≈ 3.14"


def _field(found: re.Match[str]) -> str:
    """The name of a set of numbers, unless it is the unit of one: ``5\\,\\mathrm{N}``."""
    is_unit = (
        found["rm"]
        and found["set"] in "NC"
        and _NUMBER_BEFORE.search(found.string[: found.start()])
    )
    return found[0] if is_unit else f"\\field{found['set']} "


def _joined_outside(group: re.Match[str]) -> str:
    """Digits without their commas, unless these separate the items of a pair or a set."""
    before = group.string[: group.start()]
    depth = sum(before.count(each) for each in "([⦃") - sum(before.count(each) for each in ")]⦄")
    return group[0] if depth > 0 else group[0].replace(",", "")


@dataclass(frozen=True, slots=True)
class Split:
    """Parts of a text, and the signs between them."""

    parts: list[str]
    signs: list[str]


def split(text: str, signs: str) -> Split:
    """Split a text at the signs that are in no bracket."""
    parts, found, depth, start = [], [], 0, 0
    for position, character in enumerate(text):
        depth += (character in OPENING) - (character in CLOSING)
        if depth == 0 and character in signs:
            parts.append(text[start:position].strip())
            found.append(character)
            start = position + 1
    return Split([*parts, text[start:].strip()], found)


_LETTERS = r"(?:[A-Za-z]|\\[A-Za-z]+)"
_INDEX = r"(?:\s*_\s*(?:\{[^{}]{1,20}\}|\w))?'*"
_NAME = re.compile(
    rf"(?:{_LETTERS}{_INDEX}"
    rf"|{_LETTERS}{_INDEX}\s*\([^()=]{{1,30}}\)"  # f(x)
    r"|(?:m\s*)?(?:\\(?:angle|triangle|overline|vec|overrightarrow|hat|bar|widehat)\s*\{?)?"
    r"\s*[A-Z]{1,4}\s*\}?"  # an angle, a segment
    r"|\|\s*[A-Z]{1,4}\s*\||\[\s*[A-Z]{3,6}\s*\]"
    r"|\\frac\s*\{\s*d\s*[a-z]\s*\}\s*\{\s*d\s*[a-z]\s*\}"
    r"|(?:\\text(?:bf|it|rm)?\s*\{[^{}\d]{1,60}\}|[A-Za-z]{3,}(?:\s+[A-Za-z]{2,}){0,6})\s*)"
)
_FUNCTION = re.compile(r"\\?(?:sin|cos|tan|log|ln|exp|sqrt|cot|sec|csc|max|min)(?![A-Za-z])")


def is_name(text: str) -> bool:
    """Whether a text names what is asked for: ``x``, ``f(x)``, ``AB``, ``\\text{Area}``."""
    text = text.strip()
    return bool(_NAME.fullmatch(text)) and not _FUNCTION.match(text)


_WORDS = re.compile(r"[^\W\d_][^\d\\^_{}=+*/<>|\[\]]*")
_LONG_WORD = re.compile(r"[^\W\d_]{3}")


def is_words(text: str) -> bool:
    """Whether a text is words rather than a formula: it has one of three letters, and no signs."""
    words = without_text_commands(text).strip(" $.")
    return bool(_WORDS.fullmatch(words) and _LONG_WORD.search(words)) and not is_function(words)


def is_function(text: str) -> bool:
    """Whether a text begins with the name of a function: ``sin x``."""
    return bool(_FUNCTION.match(text))


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without Markdown and LaTeX's commands for text."""
    return plain(text).casefold().strip(" .").split()
