"""Finds the sentences of a text that state its answer: "The answer is ...", "Answer: ..."."""

import re
from collections.abc import Iterator

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
_LINK = re.compile(rf"\b{BE}\b|[:=]|[是为為选選은는]", re.IGNORECASE)
_SENTENCE = re.compile(r"[^\n.;!?]{0,80}")


def statements(text: str) -> Iterator[list[tuple[int, str]]]:
    """Each statement of a text as the verbs, colons and signs behind "answer": where each ends, and
    what it is. A statement without one is none."""
    for found in _ANSWER.finditer(text):
        sentence = _SENTENCE.match(text, found.end())
        end = sentence.end() if sentence else found.end()
        links = [(link.end(), link[0]) for link in _LINK.finditer(text, found.end(), end)]
        if links:
            yield links
