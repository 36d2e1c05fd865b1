"""Encodes conversations so that untrusted text cannot forge control tokens.

A tokenizer treats ``<|im_end|>`` as the end of a turn wherever it occurs, including in a tool's
output. Untrusted text is therefore guarded before rendering: a mark is inserted into look-alikes.
Control tokens left in the rendered text were written by the template. They are renamed and encoded
by a copy of the tokenizer that knows its control tokens by the new names only; with the marks
removed, untrusted text is plain text to that copy.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from services.datasets.record import JsonValue, RowError
from services.models.tokenizer_ids.files import refused

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Unicode noncharacters: never part of valid text.
GUARD, _NAME, SENTINEL = "\ufdd0", "\ufdd1", "\ufdd2"
_ESCAPED_GUARD = f"u{ord(GUARD):04x}"
_RESERVED = re.compile(f"[{GUARD}{_NAME}{SENTINEL}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOTHING = re.compile(r"(?!)")


class Located(NamedTuple):
    """Ids of a guarded text, and the characters of it in which each begins and ends."""

    ids: list[int]
    begins: list[int]
    ends: list[int]


def guarding(special: Iterable[str]) -> Callable[[str], str]:
    """Marks texts, so that a `GuardedTokenizer` takes none of these special tokens in them for
    one."""
    begins = _begins_any_of({text for text in special if len(text) > 1})
    return lambda text: begins.sub(rf"\1{GUARD}", _clean(text))


def without_guards(text: str) -> str:
    """A guarded text as people and models read it."""
    return text.replace(GUARD, "")


def check_guards(rendered: str) -> None:
    """Raise RowError for a text in which a template has written guards as escape sequences, from
    which they cannot be removed."""
    if _ESCAPED_GUARD in rendered:
        raise RowError(
            "the chat template escapes characters of the texts, so that special tokens in them "
            "cannot be neutralized"
        )


def mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """A value with ``change`` applied to all strings, keys of objects included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): mapped(item, change) for key, item in value.items()}
    return value


def any_of(texts: Collection[str]) -> re.Pattern[str]:
    """Matches each of the texts, the longest that fits."""
    return re.compile(_alternatives(texts)) if texts else _NOTHING


def texts_in(value: JsonValue) -> Iterator[str]:
    """All strings of a value, keys of objects included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_in(item)


class GuardedTokenizer:
    """A tokenizer that distinguishes a template's control tokens from look-alikes.

    Control tokens are special tokens and other added tokens that the template writes, such as
    ``<tool_response>``. Without look-alikes the ids equal the tokenizer's own.
    """

    def __init__(
        self, tokenizer_json: str, template: str = "", *, ends: Collection[str] = ()
    ) -> None:
        """``ends`` are added tokens that count as special although the file does not say so.
        Raises InvalidRequest for a tokenizer.json that cannot be used."""
        try:
            description = json.loads(tokenizer_json)
            added = [(token["content"], token["special"]) for token in description["added_tokens"]]
            special = {
                text for text, is_special in added if (is_special or text in ends) and len(text) > 1
            }
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
        self._control = any_of(names)
        self._renamed_or_dropped = any_of({*names, GUARD})
        self._control_begins = _begins_any_of(names)
        self._special_begins = _begins_any_of(special)
        self._special = any_of(special)

    @property
    def vocabulary(self) -> int:
        """The number of tokens, including added ones."""
        return int(self._plain.get_vocab_size(with_added_tokens=True))

    def guard(self, text: str) -> str:
        """Untrusted text for the template, with no control token in it."""
        return self._control_begins.sub(rf"\1{GUARD}", _clean(text))

    def guard_special(self, text: str) -> str:
        """Text that may contain tags such as ``<think>`` but no special token."""
        return self._special_begins.sub(rf"\1{GUARD}", _clean(text))

    def located(self, rendered: str) -> Located:
        """Encode a rendered conversation with guarded text, and say where its tokens are in it."""
        segments = list(self._segments(rendered))
        starts = [start for start, _ in segments]
        stops = [*starts[1:], len(rendered)]
        named = "".join(text for _, text in segments)
        # Where each segment begins in the named text, and where the last one ends.
        places = list(accumulate((len(text) for _, text in segments), initial=0))
        encoded = self._renamed.encode(named, add_special_tokens=False)
        begins, ends = [], []
        for begin, end in encoded.offsets:
            first = max(0, bisect_right(places, begin, hi=len(segments)) - 1)
            last = max(0, bisect_left(places, end) - 1)
            begins.append(starts[first] + begin - places[first])
            ends.append(
                stops[last] if end == places[last + 1] else starts[last] + end - places[last]
            )
        return Located(encoded.ids, begins, ends)

    def _segments(self, rendered: str) -> Iterator[tuple[int, str]]:
        """The parts of the named text, and where in the rendered text each begins."""
        place = 0
        for found in self._renamed_or_dropped.finditer(rendered):
            yield place, rendered[place : found.start()]
            yield found.start(), self._names.get(found.group(), "")
            place = found.end()
        yield place, rendered[place:]

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
        return named.replace(GUARD, "")

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


def _loaded(tokenizer_json: str) -> "Tokenizer":
    # Services that wait for work need not load it.
    from tokenizers import Tokenizer  # noqa: PLC0415 - loaded with the first tokenizer

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


def _alternatives(texts: Collection[str]) -> str:
    """An alternation of texts, longest first."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def _begins_any_of(texts: Collection[str]) -> re.Pattern[str]:
    """Matches the first character of each text, including overlapping ones."""
    return re.compile(f"(?=(?:{_alternatives(texts)}))(.)", re.DOTALL) if texts else _NOTHING
