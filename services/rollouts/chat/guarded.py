"""Encodes conversations so that untrusted text cannot forge control tokens.

A tokenizer treats ``<|im_end|>`` as the end of a turn wherever it occurs, including in a tool's
output. Untrusted text is therefore guarded before rendering: a mark is inserted into look-alikes.
Control tokens left in the rendered text were written by the template. They are renamed and encoded
by a copy of the tokenizer that knows its control tokens by the new names only; with the marks
removed, untrusted text is plain text to that copy.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from tokenizers import Tokenizer

from services.rollouts.chat.files import refused

# Unicode noncharacters: never part of valid text.
_GUARD, _NAME, SENTINEL = "\ufdd0", "\ufdd1", "\ufdd2"
_RESERVED = re.compile(f"[{_GUARD}{_NAME}{SENTINEL}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOTHING = re.compile(r"(?!)")


class GuardedTokenizer:
    """A tokenizer that distinguishes a template's control tokens from look-alikes.

    Control tokens are special tokens and other added tokens that the template writes, such as
    ``<tool_response>``. Without look-alikes the ids equal the tokenizer's own.
    """

    def __init__(self, tokenizer_json: str, template: str) -> None:
        """Raises InvalidRequest for a tokenizer.json that cannot be used."""
        try:
            description = json.loads(tokenizer_json)
            added = [(token["content"], token["special"]) for token in description["added_tokens"]]
            special = {text for text, is_special in added if is_special and len(text) > 1}
            marks = {text for text, _ in added if len(text.strip()) > 1 and text in template}
            names = {
                text: f"{_NAME}{number}{_NAME}"
                for number, text in enumerate(sorted(special | marks))
            }
            self._plain = _loaded(tokenizer_json)
            self._renamed = _loaded(json.dumps(_renamed(description, names)))
        except Exception as error:  # the library raises bare Exception
            raise refused(f"tokenizer.json cannot be used: {error}") from None
        if any(self._renamed.token_to_id(names[text]) != self.id_of(text) for text in names):
            raise refused("tokenizer.json lists its added tokens in an unsupported way")
        self._names = names
        self._control = _any_of(names)
        self._control_begins = _begins_any_of(names)
        self._special_begins = _begins_any_of(special)
        self._special = _any_of(special)

    @property
    def vocabulary(self) -> int:
        """The number of tokens, including added ones."""
        return int(self._plain.get_vocab_size(with_added_tokens=True))

    def guard(self, text: str) -> str:
        """Untrusted text for the template, with no control token in it."""
        return self._control_begins.sub(rf"\1{_GUARD}", _clean(text))

    def guard_special(self, text: str) -> str:
        """Text that may contain tags such as ``<think>`` but no special token."""
        return self._special_begins.sub(rf"\1{_GUARD}", _clean(text))

    def encode(self, rendered: str) -> list[int]:
        """Encode a rendered conversation with guarded text."""
        return self.encode_parts([rendered])[0]

    def encode_parts(self, parts: Sequence[str]) -> list[list[int]]:
        """Encode the concatenated ``parts`` and split the ids at their boundaries.

        A token across a boundary belongs to the part in which it begins.
        """
        named = [self._named(part) for part in parts]
        encoded = self._renamed.encode("".join(named), add_special_tokens=False)
        begins = [begin for begin, _ in encoded.offsets]
        ends = [bisect_left(begins, length) for length in accumulate(map(len, named))]
        ids = encoded.ids
        return [ids[begin:end] for begin, end in pairwise((0, *ends[:-1], len(ids)))]

    def _named(self, rendered: str) -> str:
        """Rendered text with renamed control tokens and without guards."""
        named = self._control.sub(lambda match: self._names[match.group()], rendered)
        return named.replace(_GUARD, "")

    def encode_plain(self, text: str) -> list[int]:
        """Encode with the original tokenizer, control tokens included."""
        return self._plain.encode(_SURROGATES.sub("\ufffd", text), add_special_tokens=False).ids

    def decode(self, token_ids: list[int]) -> str:
        """Decode tokens, keeping special ones; invalid UTF-8 becomes U+FFFD."""
        return self._plain.decode(token_ids, skip_special_tokens=False)

    def first_special(self, text: str) -> str | None:
        """The first special token in a text."""
        match = self._special.search(text)
        return match.group() if match else None

    def id_of(self, token: str) -> int | None:
        """The id of a token, None if the text is not one."""
        return self._plain.token_to_id(token)


def _loaded(tokenizer_json: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _renamed(description: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The tokenizer with some added tokens renamed, and their old texts unreachable, whether as
    vocabulary entries or through merges."""
    added = [
        {**token, "content": names.get(token["content"], token["content"])}
        for token in description["added_tokens"]
    ]
    model = dict(description["model"])
    if model.get("merges"):
        model["merges"] = [pair for pair in model["merges"] if not _makes_any(pair, names)]
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(text, text): token for text, token in vocabulary.items()}
    elif isinstance(vocabulary, list):
        model["vocab"] = [[names.get(text, text), score] for text, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    return {**description, "added_tokens": added, "model": model, "post_processor": None}


def _makes_any(pair: str | list[str], names: dict[str, str]) -> bool:
    """Whether a merge produces one of the named texts or extends one."""
    left, right = pair.split(" ") if isinstance(pair, str) else pair
    return left + right in names or left in names or right in names


def _clean(text: str) -> str:
    return _SURROGATES.sub("\ufffd", _RESERVED.sub("\ufffd", text))


def _alternatives(texts: set[str] | dict[str, str]) -> str:
    """An alternation of texts, longest first."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def _any_of(texts: set[str] | dict[str, str]) -> re.Pattern[str]:
    return re.compile(_alternatives(texts)) if texts else _NOTHING


def _begins_any_of(texts: set[str] | dict[str, str]) -> re.Pattern[str]:
    """Matches the first character of each text, including overlapping ones."""
    return re.compile(f"(?=(?:{_alternatives(texts)}))(.)", re.DOTALL) if texts else _NOTHING
