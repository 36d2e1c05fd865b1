"""The tokens of formulas."""

import re

from services.rewards.mathematics.tree import FUNCTIONS, Unparsable

PREFIX = FUNCTIONS - {"abs", "floor", "ceil", "factorial", "binom", "root", "sqrt"}
"""Functions that are written before what they are applied to."""
_WORDS = sorted(
    {*PREFIX, "sqrt", "pi", "infinity", "inf", "oo", "abs", "floor", "ceil", "binom"},
    key=len,
    reverse=True,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![A-Za-z\d]))?)"
    rf"|(?P<command>\\[A-Za-z]+)|(?P<word>{'|'.join(_WORDS)})(?![a-z])"
    r"|(?P<name>[^\W\d_])|(?P<sign>[-+*/^_(){}\[\]⦃⦄|,;!'%°±∓∞⊔∩⊖&:=]))"
)


class Tokens:
    """Reads the tokens of a formula, kinds and texts, one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, *signs: str) -> str | None:
        kind, text = self._peek()
        if kind not in ("end", "number") and text in signs:
            self._at += 1
            return text
        return None

    def _expect(self, *signs: str) -> str:
        found = self._take(*signs)
        if found is None:
            raise Unparsable(f"{self._peek()[1]!r} in place of {signs}")
        return found

    def expect_end(self) -> None:
        """Raise `Unparsable` unless the whole formula is read."""
        if self._peek()[0] != "end":
            raise Unparsable(self._peek()[1])


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise Unparsable(text[position : position + 20])
        tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        position = found.end()
    return tokens
