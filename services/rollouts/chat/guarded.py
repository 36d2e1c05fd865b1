"""Encoding conversations in which the text of others can forge no control token.

A tokenizer takes ``<|im_end|>`` for the end of a turn wherever it stands, in the output of a tool
too. Here such a text is guarded before the template is rendered: a mark is put into it. What then
still looks like a control token was written by the template. It is encoded under another name,
by a copy of the tokenizer that knows its control tokens by these names only; the text of others
is plain text to that copy once the marks are taken out again.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from tokenizers import Tokenizer

from services.rollouts.chat.files import refused

# Unicode promises that these are never characters of a text.
_GUARD, _NAME, SENTINEL = "\ufdd0", "\ufdd1", "\ufdd2"
_RESERVED = re.compile(f"[{_GUARD}{_NAME}{SENTINEL}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOTHING = re.compile(r"(?!)")


class GuardedTokenizer:
    """A tokenizer that tells the control tokens of a template from texts that look like them.

    Control tokens are the special ones, and other added tokens that the template itself writes,
    such as ``<tool_response>``. It is as exact as the tokenizer: without a forgery both give the
    same ids.
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
            raise refused("tokenizer.json lists its added tokens in a way that cannot be used")
        self._names = names
        self._control = _any_of(names)
        self._control_begins = _begins_any_of(names)
        self._special_begins = _begins_any_of(special)
        self._special = _any_of(special)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are, added ones too."""
        return int(self._plain.get_vocab_size(with_added_tokens=True))

    def guard(self, text: str) -> str:
        """A text of others for the template, in which nothing is a control token."""
        return self._control_begins.sub(rf"\1{_GUARD}", _clean(text))

    def guard_special(self, text: str) -> str:
        """A text that may hold marks such as ``<think>``, but no special token."""
        return self._special_begins.sub(rf"\1{_GUARD}", _clean(text))

    def encode(self, rendered: str) -> list[int]:
        """The ids of a rendered conversation whose texts of others are guarded."""
        return self.encode_parts([rendered])[0]

    def encode_parts(self, parts: Sequence[str]) -> list[list[int]]:
        """The ids of the text that ``parts`` make together, divided where the parts begin.

        A token that reaches over such a place belongs to the part that it begins in.
        """
        named = [self._named(part) for part in parts]
        encoded = self._renamed.encode("".join(named), add_special_tokens=False)
        begins = [begin for begin, _ in encoded.offsets]
        ends = [bisect_left(begins, length) for length in accumulate(map(len, named))]
        ids = encoded.ids
        return [ids[begin:end] for begin, end in pairwise((0, *ends[:-1], len(ids)))]

    def _named(self, rendered: str) -> str:
        """A rendered text with the control tokens by their names, and no guards."""
        named = self._control.sub(lambda match: self._names[match.group()], rendered)
        return named.replace(_GUARD, "")

    def encode_plain(self, text: str) -> list[int]:
        """The ids that the tokenizer gives for a text, control tokens wherever they stand."""
        return self._plain.encode(_SURROGATES.sub("\ufffd", text), add_special_tokens=False).ids

    def decode(self, token_ids: list[int]) -> str:
        """The text of tokens, special ones kept; bytes that are no UTF-8 become U+FFFD."""
        return self._plain.decode(token_ids, skip_special_tokens=False)

    def first_special(self, text: str) -> str | None:
        """The first special token in a text."""
        match = self._special.search(text)
        return match.group() if match else None

    def id_of(self, token: str) -> int | None:
        """The id of a token, null for a text that is none."""
        return self._plain.token_to_id(token)


def _loaded(tokenizer_json: str) -> Tokenizer:
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _renamed(description: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The description of a tokenizer that knows some added tokens by other names, and by these
    only: they are pieces of its vocabulary neither whole nor by merging others."""
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
    """Whether a merge makes one of the named texts, or goes on from one."""
    left, right = pair.split(" ") if isinstance(pair, str) else pair
    return left + right in names or left in names or right in names


def _clean(text: str) -> str:
    return _SURROGATES.sub("\ufffd", _RESERVED.sub("\ufffd", text))


def _alternatives(texts: set[str] | dict[str, str]) -> str:
    """A pattern of several texts, of which the longest is tried first."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def _any_of(texts: set[str] | dict[str, str]) -> re.Pattern[str]:
    return re.compile(_alternatives(texts)) if texts else _NOTHING


def _begins_any_of(texts: set[str] | dict[str, str]) -> re.Pattern[str]:
    """The first character of each text, also of those that overlap."""
    return re.compile(f"(?=(?:{_alternatives(texts)}))(.)", re.DOTALL) if texts else _NOTHING
