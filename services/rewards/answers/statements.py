"""What counts as a statement of the answer, for numbers and letters alike.

    statement  =  label link value  |  value BE ("the" | "our" | "my") ["final" | "correct"] label
    label      =  "answer", also in other languages; for letters also "the right option"
    link       =  a form of "to be", a colon, an equals sign, or the end of a line that is nothing
                  but a label; "but", where the value before it is denied

Where it stands: a link is in the sentence of its label, and the value in the clause behind it.

What denies it (`is_doubted`, `is_negated`):

- a word before the label that makes it another answer: "the wrong answer", "the least likely
  answer", "my first answer", "not the answer";
- what governs the clause: "I do not think that ...", "it is false that ...", "rule out ...";
- "not", "never", "anything but" directly before the value, or a question mark behind it;
- what only supposes it: "if the answer is ...", "whether ...", "you might think that ...".

A clause ends at punctuation and at words such as "so", "but" and "because": what is denied before
them does not deny what is behind. What is supposed is supposed to the end of its sentence.

A sentence that seeks an answer ("to find the answer: ...", "let me answer: ...") states only a
value that stands alone behind its colon. "We get the answer: ..." does not seek, nor does "we find
that the answer is ...".

What may follow a value is told where values are read: for numbers in `numbers`, for letters in
`choices`.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from services.rewards.answers.writing import IN_LINE

BE = (
    r"(?:is|was|ist|est|es|é|è|lautet|shall be"
    r"|(?:should|would|must|will|has to|could)\s+(?:then\s+|therefore\s+|thus\s+)?be)"
)
"""Verbs between "answer" and the answer."""

CHARACTERS = 120
"""Before a position, and behind a label, more are not read."""

MAX_LABELS = 1_000
"""Of more labels in a text, the last ones are read."""

_LABEL = re.compile(
    r"(?:\banswer(?!\w|\s+(?:choices|options)\b)|\bans\b|答案|正解|答え|정답|\bantwort\b"
    r"|\br[ée]ponse\b|\brespuesta\b|\brisposta\b|\bresposta\b|\bantwoord\b|\bsvar\b|\bjawaban\b"
    r"|ответ|đáp án|odpowiedź|الإجابة)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:[^\n.;!?]|\.(?=\d)){0,80}")
_BUT = r"(?<!thing\s)\bbut\b"
_BE_NOT = (
    r"(?:(?:is|was|ca|should|must|would|could|wo)n['\u2019]?t(?:\s+be)?"
    r"|(?:cannot|(?:can|should|must|would|could|will)\s+not)\s+be)"
)
_LINK = re.compile(
    rf"\b(?P<denied>{_BE_NOT})\b|(?<!which\s)\b{BE}\b|(?<!\d)[:=]|[:=](?!\d)|[是为為选選은는]"
    rf"|{_BUT}(?:\s+rather)?\b",
    re.IGNORECASE,
)
_REST_OF_LINE = re.compile(r"[\s*_`#]*\n")
_BEGIN_OF_LINE = re.compile(
    r"(?:\A|\n)[\s*_`#>]*(?:(?:the|my|our|final|correct)\s+)*\Z", re.IGNORECASE
)

_NOT = (
    r"(?:not|never|cannot|neither|nor|hardly|nobody|no\s+one"
    r"|(?:is|are|was|were|do|does|did|ca|wo|would|should|could|must)n['\u2019]?t)"
)
_FALSE = (
    r"(?:wrong|incorrect|false|untrue|mistaken|mistake|impossible|unlikely|doubtful"
    r"|(?<!no\s)(?<!without\s)doubt)"
)
_OTHER = (
    rf"(?:{_FALSE}|bad|worst|least|erroneous|invalid|inaccurate|naive|tempting|trap|first|initial"
    r"|original|previous|earlier|former|old|other|another|alternative|no)"
)
_REJECT = (
    r"(?:rul(?:e|ed|es|ing)\s+out|eliminat(?:e|ed|es|ing)|exclud(?:e|ed|es|ing)|reject(?:ed|s|ing)?"
    r"|discard(?:ed|s|ing)?|dismiss(?:ed|es|ing)?|rather\s+than|instead\s+of|anything\s+but|except)"
)
_ARTICLE = r"(?:(?:the|an?|this|our|my|your|its|each)\s+)?"
_ADJECTIVES = r"(?:(?!(?:the|an?|our|my|your|that)\b)[a-z]+\s+){0,2}"
_NOUN = rf"{_ARTICLE}(?:[a-z]+\s+){{0,2}}"
_THINK = r"(?:think|thought|believe|say|claim|guess|assume|expect|argue)"
_CLAUSE_END = re.compile(
    r"[,;:!?(\n]|\.(?!\d)|\s[-\u2013\u2014]\s"
    rf"|{_BUT}"
    r"|\b(?:so|thus|hence|therefore|and|because|since|while|whereas|although|though|then"
    r"|however)\b"
    # A whole clause without an end: "as 5 is wrong | the answer is 6".
    r"|(?<!\bit)\s(?:is|are|was|were)(?:n['\u2019]?t|\s+not)?\s+[a-z]+\s+(?=(?:the|our|my)\b)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    rf"\b{_OTHER}\s+{_ADJECTIVES}\Z"
    rf"|\b{_NOT}\s+(?:(?!(?:right|correct|true|possible)\b)[a-z]+\s+){{0,2}}{_NOUN}\Z"
    rf"|\b(?:{_NOT}|{_FALSE})\s+(?:[a-z]+\s+){{0,4}}?that\s+{_NOUN}\Z"
    rf"|\b{_REJECT}\s+{_NOUN}\Z",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"(?:\b(?:if|whether|unless|suppos(?:e|ing)|assum(?:e|ing)|imagine|when(?:ever)?)|(?<!is\s)\bwhy)"
    rf"(?:\s+that)?[\s,]+{_ARTICLE}{_ADJECTIVES}\Z"
    r"|\b(?:could|would|might|may)\s+(?:the|this|our|my|your)\s+(?:[a-z]+\s+){0,2}\Z"
    rf"|\b(?:(?:might|may|could)(?:\s+[a-z]+)?|some|many|others|people)\s+{_THINK}(?:\s+that)?\s+"
    rf"{_NOUN}\Z",
    re.IGNORECASE,
)
_ADVERB = r"(?:(?:[a-z]+ly|now|next|then|first|also|please|try\s+to)\s+)"
_SEEK = (
    r"(?:find|get|give|obtain|reach|derive|calculate|compute|determine|figure|work|check|verify"
    r"|confirm|know|see|express|present|write|provide|explain|solve|simplify|round|estimate)"
)
_SEEKER = r"(?:to|i|we|you|can|could|must|should|will|let'?s|let\s+(?:us|me)|(?:i|we|you)'ll)"
_SOUGHT = re.compile(
    # "answer" is a verb: "to answer the question: ...", "let me answer: ...".
    rf"\b{_SEEKER}\s+{_ADVERB}*\Z"
    # It is the object of an imperative or an infinitive: "find the answer: ...".
    rf"|(?:\A\W*|\b(?!i\b|we\b|you\b){_SEEKER}\s+){_ADVERB}*{_SEEK}\s+(?:(?:out|for|down)\s+)?"
    rf"{_NOUN}\Z",
    re.IGNORECASE,
)
_CONTRAST = re.compile(rf"[,;]|{_BUT}", re.IGNORECASE)
_DENIES = re.compile(rf"\b(?:{_NOT}|{_FALSE})\b", re.IGNORECASE)
_NEGATED_AHEAD = re.compile(
    rf"[\s*_]*(?:[a-z]+ly\s+)?(?:{_NOT}|no|none|anything\s+but)\b", re.IGNORECASE
)
_REFUTED = re.compile(
    rf"(?:{IN_LINE}|[)\]*_$])*+\b(?:is|are|was|were)\s+(?:[a-z]+ly\s+)?{_FALSE}\b", re.IGNORECASE
)
_NEGATED = re.compile(
    rf"\b(?:{_NOT}|rather\s+than|instead\s+of|anything\s+but)\s+"
    r"(?:(?:be|equal|equal\s+to|the|an?|[a-z]+ly|option|choice|letter)\s+)*[\s*_`$(\[{\\]*\Z",
    re.IGNORECASE,
)


_REST = re.compile(
    r".{0,1000}?(?=[\n;!?]|\.(?![\da-z])|,(?!\d|\s*(?:which\s+(?:is|gives|equals)|i\.e\.))|\Z|\s\("
    rf"|{_BUT}|\b(?:so|because|since)\b)",
    re.IGNORECASE,
)


class Place(NamedTuple):
    """Where a value may stand behind a label: ``at`` is the end of the link.

    ``holds`` is false where the value is denied or supposed. With ``is_sought`` only a value that
    stands alone is stated.
    """

    at: int
    holds: bool
    is_sought: bool


def statements(text: str) -> Iterator[list[Place]]:
    """For each label with a link, the last first, the places of its value: those behind "to be"
    and colons if it has any, else those behind equals signs."""
    for label in reversed(deque(_LABEL.finditer(text), maxlen=MAX_LABELS)):
        links = list(_links(text, label.start(), label.end()))
        if links:
            yield links


def _links(text: str, begin: int, end: int) -> Iterator[Place]:
    if (line := _REST_OF_LINE.match(text, end)) and _BEGIN_OF_LINE.search(_before(text, begin)):
        yield Place(line.end(), holds=True, is_sought=True)
        return
    sentence = _SENTENCE.match(text, end)
    found = list(_LINK.finditer(text, end, sentence.end() if sentence else end))
    found = [
        link for link in found if link[0] != "=" or not text[end : link.start()].strip(" *_`$")
    ] or found
    if not found:
        return
    clause = _clause(text, begin)
    is_supposed = bool(_SUPPOSED.search(clause))
    is_denied = bool(_DENIED.search(clause))
    is_sought = bool(_SOUGHT.search(clause))
    after = end
    for number, link in enumerate(found):
        is_but = link[0][:3].lower() == "but"
        denies_before = number > 0 and (is_denied or _is_negated_behind(text, after))
        if is_but and not denies_before:
            continue
        # A denied label denies its first value; what is behind a comma or "but" is another one.
        between, *behind = _CONTRAST.split(text[after : link.end()])
        is_denied = is_denied and not (number and behind)
        is_denied = is_denied or bool(_DENIES.search(behind[-1] if behind else between))
        is_denied = is_denied or link["denied"] is not None
        after = link.end()
        holds = not (is_supposed or is_denied or _is_negated_behind(text, after))
        yield Place(after, holds, is_sought and link[0] in ":=")


class Denied:
    """Where a text denies or supposes values: from a place that does not hold to its clause's
    end."""

    def __init__(self, text: str, places: Iterable[Place]) -> None:
        begins = sorted(place.at for place in places if not place.holds)
        self._begins = begins
        self._ends = [rest.end() if (rest := _REST.match(text, at)) else at for at in begins]

    def covers(self, at: int) -> bool:
        """Whether a position is within one of them."""
        before = bisect_right(self._begins, at)
        return before > 0 and at < self._ends[before - 1]


def is_doubted(text: str, at: int) -> bool:
    """Whether the clause before a position denies or supposes what begins there."""
    clause = _clause(text, at)
    return bool(_DENIED.search(clause) or _SUPPOSED.search(clause))


def is_negated(text: str, at: int) -> bool:
    """Whether "not" or its like stands directly before the value at a position."""
    return bool(_NEGATED.search(_before(text, at)))


def is_refuted(text: str, at: int) -> bool:
    """Whether the words behind a value call it wrong."""
    return bool(_REFUTED.match(text, at))


def _is_negated_behind(text: str, at: int) -> bool:
    """Whether "not" or its like stands directly behind a position."""
    return bool(_NEGATED_AHEAD.match(text, at))


def _before(text: str, at: int) -> str:
    return text[max(0, at - CHARACTERS) : at]


def _clause(text: str, at: int) -> str:
    """The words of its clause before a position."""
    before = _before(text, at)
    ends = [end.end() for end in _CLAUSE_END.finditer(before)]
    return before[ends[-1] :] if ends else before
