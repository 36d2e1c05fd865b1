"""Texts as tokens that know where in the text they begin: the basis of cutting a conversation into
what the model reads and what it learns to write."""

import json
from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from services.datasets.rendering.guarded import GUARD, GuardedTokenizer, without_guards


class Token(NamedTuple):
    """A token, and the part of the text that it represents."""

    id: int
    text: str


class EncodedText:
    """The tokens of a text: ``ids``, and the characters in which each begins and ends."""

    def __init__(
        self, text: str, ids: Sequence[int], begins: Sequence[int], ends: Sequence[int]
    ) -> None:
        self.text = text
        self.ids = ids
        self._begins = begins
        self._ends = ends

    def __len__(self) -> int:
        return len(self.ids)

    def before(self, place: int) -> int:
        """How many tokens begin before a character."""
        return bisect_left(self._begins, place)

    def is_boundary(self, place: int) -> bool:
        """Whether no token lies across a character position."""
        before = self.before(place)
        return before == 0 or self._ends[before - 1] <= place

    def begin(self, token: int) -> int:
        """The character at which a token begins; the end of the text behind the last one."""
        return self._begins[token] if token < len(self.ids) else len(self.text)

    def parts(self, lengths: Sequence[int]) -> "list[TextPart]":
        """The tokens of consecutive parts of the text; a token across their border belongs to the
        part in which it begins."""
        ends = [self.before(length) for length in accumulate(lengths)]
        return [TextPart(self, begin, end) for begin, end in pairwise((0, *ends[:-1], len(self)))]


class TextPart:
    """Consecutive tokens of a text; their texts are created lazily."""

    def __init__(self, whole: EncodedText, begin: int, end: int) -> None:
        self._whole = whole
        self._begin = begin
        self._end = end

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def ids(self) -> list[int]:
        """Their ids."""
        return list(self._whole.ids[self._begin : self._end])

    def first(self, count: int) -> list[Token]:
        """The first ``count`` tokens.

        A token's text extends to the start of the next one, so that the texts add up to the whole;
        of several tokens that form one character, the last has it.
        """
        end = min(self._begin + count, self._end)
        begins = [self._whole.begin(token) for token in range(self._begin, end + 1)]
        if begins and self._begin == 0:
            begins[0] = 0
        return [
            Token(self._whole.ids[self._begin + n], without_guards(self._whole.text[begin:behind]))
            for n, (begin, behind) in enumerate(pairwise(begins))
        ]


class TextEncoder(Protocol):
    """A tokenizer without the tokens that it may put around a text. ``special`` are the texts of
    its special tokens."""

    @property
    def special(self) -> frozenset[str]:
        """Their texts."""

    def __call__(self, text: str) -> EncodedText:
        """Encode a text; special tokens in it are recognized unless they are guarded."""


class TokenizerEncoder:
    """Encodes with a tokenizer.json; ``ends`` are texts that count as special although the file
    does not say so."""

    def __init__(self, tokenizer_json: str, *, ends: Collection[str] = ()) -> None:
        """Raises whatever the library does for a file that is not a tokenizer."""
        # Services that wait for work need not load it.
        from tokenizers import Tokenizer  # noqa: PLC0415 - loaded with the first tokenizer

        self._json, self._ends = tokenizer_json, ends
        # A post-processor adds tokens, which are not wanted, and trims blanks off the offsets.
        description = {**json.loads(tokenizer_json), "post_processor": None}
        self._tokenizer = Tokenizer.from_str(json.dumps(description))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        added = self._tokenizer.get_added_tokens_decoder().values()
        self.special = frozenset({*ends, *(token.content for token in added if token.special)})
        # A text is encoded to find where to cut it, and again for its tokens.
        self._latest = lru_cache(maxsize=_KEPT)(self._encoded)

    def __call__(self, text: str) -> EncodedText:
        return self._latest(text)

    def _encoded(self, text: str) -> EncodedText:
        if GUARD in text:
            return EncodedText(text, *self._guarded.located(text))
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        offsets = encoding.offsets
        return EncodedText(
            text, encoding.ids, [begin for begin, _ in offsets], [end for _, end in offsets]
        )

    @cached_property
    def _guarded(self) -> GuardedTokenizer:
        return GuardedTokenizer(self._json, ends=self._ends)


_KEPT = 4
