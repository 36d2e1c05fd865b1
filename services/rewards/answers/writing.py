"""How texts state an answer: "The answer is ...", "Answer: ...", and what is around an answer
without being part of it: emphasis, quotes, wide characters."""

import re
from collections.abc import Iterator

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_MINUS = dict.fromkeys(map(ord, "\u2212\u2013\u2010\u2011\u2012\ufe63"), "-")
_QUOTES = dict.fromkeys(
    map(ord, '"`*$\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u300c\u300d'), None
)
_OTHERS = {0x3002: ".", 0x3001: ",", 0x3000: " ", 0x00A0: " ", 0x3010: "(", 0x3011: ")"}
_CHARACTERS = {**_WIDE, **_QUOTES, **_OTHERS}

TEXT_COMMAND = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal|up)?|math(?:rm|bf|it|sf|tt|bb|cal)|mbox|bm|boldsymbol"
    r"|operatorname)\s*\*?\s*\{([^{}]*)\}"
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


BE = (
    r"(?:is|was|ist|est|es|é|è|lautet|shall be"
    r"|(?:should|would|must|will|has to|could)\s+(?:then\s+|therefore\s+|thus\s+)?be)"
)
"""Verbs between "answer" and the answer."""

_ANSWER = re.compile(
    r"(?:\banswer(?!\w|\s+(?:choices|options)\b)|\bans\b|答案|正解|答え|정답|\bantwort\b"
    r"|\br[ée]ponse\b|\brespuesta\b|\brisposta\b|\bresposta\b|\bantwoord\b|\bsvar\b|\bjawaban\b"
    r"|ответ|đáp án|odpowiedź|الإجابة)",
    re.IGNORECASE,
)
_LINK = re.compile(rf"\b{BE}\b|[:=]|[是为为選选은는]", re.IGNORECASE)
_SENTENCE = re.compile(r"[^\n.;!?]{0,80}")
_BEFORE = re.compile(r"[^\n.;!?]{0,80}\Z")
_FIRST = r"\A\W*(?:(?:so|now|next|first|then|finally|thus|therefore|hence|and|please)\W+)*"
_AIM = (
    rf"(?:{_FIRST}(?:to\s+)?|\b(?:order|needs?|have|has|want|how|try|trying|going|able)\s+to\s+"
    r"|\b(?:let'?s|let\s+(?:us|me)|(?:i|we|you)(?:'ll|\s+(?:will|can|must|should)))\s+)"
)
_SEEK = (
    r"(?:find|get|give|obtain|reach|derive|calculate|compute|determine|figure|work|check|verify"
    r"|confirm|know|see|express|present|write|provide|explain|solve|simplify|round|estimate)"
)
_ARTICLE = r"(?:(?:the|an?|this|our|my|your|its|each)\s+)?(?:[a-z]+\s+)?"
_NOT_STATED = re.compile(
    # A verb: "to answer the question", "let me answer".
    r"(?:\b(?:to|i|we|can|must|should|will|let'?s|let\s+(?:us|me)|(?:i|we)'ll)"
    r"(?:\s+(?:now|then|first|try|to))*\s*\Z"
    # What is sought: "let's find the answer step by step", "Find the answer".
    rf"|{_AIM}(?:[a-z]+\s+)?{_SEEK}(?:\s+(?:out|for|down))?\s+{_ARTICLE}\Z"
    # What is supposed: "if the answer is", "suppose that the answer is".
    r"|\b(?:if|whether|unless|suppos(?:e|ing)|assum(?:e|ing)|imagine|when(?:ever)?|could|would"
    rf"|might|may)\b(?:\s+that)?[\s,]+{_ARTICLE}\Z)",
    re.IGNORECASE,
)


def statements(text: str) -> Iterator[list[tuple[int, str]]]:
    """Each statement of a text as the verbs, colons and signs behind "answer": where each ends, and
    what it is. A sentence without one states nothing, nor does one that seeks an answer or supposes
    one: "to find the answer: ...", "if the answer is 5, ..."."""
    for found in _ANSWER.finditer(text):
        sentence = _SENTENCE.match(text, found.end())
        end = sentence.end() if sentence else found.end()
        links = [(link.end(), link[0]) for link in _LINK.finditer(text, found.end(), end)]
        if links and is_stated(text, found.start()):
            yield links


def is_stated(text: str, at: int) -> bool:
    """Whether the words before a position leave what follows it neither sought nor supposed."""
    before = _BEFORE.search(text[max(0, at - 80) : at])
    return before is None or not _NOT_STATED.search(before[0])
