"""A tokenizer in Python, without a tokenizer.json, which does not say where its tokens are."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Protocol

from services.datasets.record import RowError
from services.datasets.rendering.text_encoding import EncodedText

_MOST_TOKENS = 8
"""Tokens that may form one character together; a byte each are four."""
_SHOWN = 40
_KEPT = 65_536
_TOUCHING = "x0.-"


class PythonTokenizer(Protocol):
    """What is used of a tokenizer of transformers."""

    @property
    def all_special_tokens(self) -> Sequence[str]:
        """The texts of the tokens with a role."""

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Tokens that are found in texts before these are encoded; each has a ``content``."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        """The ids of a text."""

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str:
        """The text of ids."""

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of a token."""


class SlowEncoder:
    """Finds the places of tokens by decoding them, one or a few at a time, and comparing with the
    text.

    Decoders add and drop blanks, at the beginning, at the end and around special tokens, so that
    lengths of decoded texts do not add up. Tokens are therefore decoded between two that touch
    their neighbors without a blank, special ones are not decoded at all, and blanks are the only
    characters in which decoded text and text may differ.
    """

    def __init__(self, tokenizer: PythonTokenizer, ends: Collection[str]) -> None:
        self._tokenizer = tokenizer
        self.special = frozenset({*ends, *map(str, tokenizer.all_special_tokens)})
        self._piece = lru_cache(maxsize=_KEPT)(self._decoded)

    def __call__(self, text: str) -> EncodedText:
        """Raises RowError if the tokens do not reproduce the text."""
        ids = list(self._tokenizer.encode(text, add_special_tokens=False))
        begins: list[int] = []
        ends: list[int] = []
        for count, begin, end in self._groups(ids, text):
            begins += [begin] * count
            ends += [end] * count
        behind = ends[-1] if ends else 0
        if text[behind:].strip():
            raise _not_reproduced(text, behind)
        return EncodedText(text, ids, begins, ends)

    def _groups(self, ids: Sequence[int], text: str) -> Iterator[tuple[int, int, int]]:
        """How many tokens form the next characters, and where in the text these begin and end."""
        first = place = 0
        for number, token in enumerate(ids):
            group = tuple(ids[first : number + 1])
            whole = self._whole.get(token)
            piece = self._piece(group) if whole is None else whole
            found = _matched(text, place, piece) if whole is None or first == number else None
            if found is None:
                if whole is not None or len(group) == _MOST_TOKENS:
                    raise _not_reproduced(text, place)
                continue
            yield len(group), *found
            first, place = number + 1, found[1]
        if first < len(ids):
            raise _not_reproduced(text, place)

    @cached_property
    def _whole(self) -> dict[int, str]:
        """The texts of the tokens that are found in a text as they are, by id."""
        tokenizer = self._tokenizer
        found = {token: str(each.content) for token, each in tokenizer.added_tokens_decoder.items()}
        for text in self.special:
            if (token := tokenizer.convert_tokens_to_ids(text)) is not None:
                found.setdefault(token, text)
        return found

    @cached_property
    def _anchor(self) -> tuple[list[int], str]:
        """A token that is decoded without a blank at either side, and its text; none if every
        token has one."""
        for before, text in product(_TOUCHING, repeat=2):
            ids = self._tokenizer.encode(before + text, add_special_tokens=False)
            if ids and self._text([ids[-1]] * 3) == text * 3:
                return [ids[-1]], text
        return [], ""

    def _decoded(self, ids: tuple[int, ...]) -> str:
        anchor, text = self._anchor
        return self._text([*anchor, *ids, *anchor]).removeprefix(text).removesuffix(text)

    def _text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )


def _matched(text: str, place: int, piece: str) -> tuple[int, int] | None:
    """The characters of a piece in a text that holds it at a place, but for blanks before it."""
    if text.startswith(piece, place):
        return place, place + len(piece)
    bare = piece.lstrip()
    if not bare:  # a blank that only the decoder writes
        return place, place
    begin = place
    while text[begin : begin + 1].isspace():
        begin += 1
    return (begin, begin + len(bare)) if text.startswith(bare, begin) else None


def _not_reproduced(text: str, place: int) -> RowError:
    return RowError(
        "the model's tokenizer, which has no tokenizer.json, does not reproduce the text from "
        f"{text[place : place + _SHOWN]!r} on, so that it is unknown which of its tokens to learn"
    )
