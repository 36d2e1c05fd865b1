"""The ids of two tokenizers that mean the same, so that one model can learn from the probabilities
of another that numbers its tokens differently."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.models.tokenizer_ids.files import TOKENIZER, read_special_tokens
from services.models.tokenizer_ids.prepared import load_json_tokenizer
from services.models.tokenizer_ids.words import CODE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PADDING = "pad_token"
"""The role of a token that no text has."""
SHOWN = 3
"""Tokens that an error names."""
_BLANK = "\u2581"


@dataclass(frozen=True)
class IdMap:
    """Ids of a ``student`` in ascending order, and those of its ``teacher`` for the same tokens."""

    student: tuple[int, ...]
    teacher: tuple[int, ...]

    @property
    def is_identity(self) -> bool:
        """Whether every token has one id."""
        return self.student == self.teacher

    def to_teacher(self) -> dict[int, int]:
        """The teacher's id of each of the student's."""
        return dict(zip(self.student, self.teacher, strict=True))

    def to_student(self) -> dict[int, int]:
        """The student's id of each of the teacher's that it has."""
        return dict(zip(self.teacher, self.student, strict=True))


def map_ids(student: Path, teacher: Path, param: str = "model") -> IdMap:
    """The teacher's id of every token that the student can write, by the tokenizers in two folders.

    Tokens are the same if they stand for the same bytes; a special token without such a
    counterpart, if both fill the same role (``eos_token``). The teacher may have more tokens.
    Raises `InvalidRequest`, which names the student's first tokens that the teacher lacks.
    """
    own = _Words.of(student)
    try:
        others = _Words.of(teacher)
    except InvalidRequest as error:
        error.param = param
        raise
    kinds = {own.spells_bytes, others.spells_bytes}
    as_bytes = kinds == {True, False}
    known = others.spelled(as_bytes=as_bytes)
    words = own.spelled(as_bytes=as_bytes)
    found = {token: known[word] for word, token in words.items() if word in known}
    found |= _by_role(own, others, found)
    missing = own.texts.keys() - found.keys() - own.padding()
    if missing or not found:
        raise _lacking(own.texts, sorted(missing), param)
    ids = sorted(found)
    return IdMap(tuple(ids), tuple(found[token] for token in ids))


@dataclass(frozen=True)
class _Words:
    """A vocabulary: the text of each id, the ids of ``added`` tokens, the id in each special role,
    and how its texts spell bytes: as characters of their own (True), with blanks of SentencePiece
    (False), or unknown (None)."""

    texts: Mapping[int, str]
    added: frozenset[int]
    roles: Mapping[str, int]
    spells_bytes: bool | None

    @classmethod
    def of(cls, folder: Path) -> "_Words":
        """Read a folder; raises `InvalidRequest`."""
        tokenizer = load_json_tokenizer(folder / TOKENIZER)
        ids = tokenizer.get_vocab(with_added_tokens=True)
        special = read_special_tokens(folder)
        return cls(
            texts={token: text for text, token in ids.items()},
            added=frozenset(tokenizer.get_added_tokens_decoder()),
            roles={role: ids[text] for role, text in special.items() if text in ids},
            spells_bytes=_spells_bytes(tokenizer),
        )

    def spelled(self, *, as_bytes: bool) -> dict[str, int]:
        """The id of each text or, ``as_bytes``, of each spelling of bytes that all tokenizers
        share; without those that two ids have."""
        if not as_bytes:
            return {text: token for token, text in self.texts.items()}
        found: dict[str, int] = {}
        ambiguous = set()
        # Single bytes come last: they stand in for characters that have no token.
        for token, text in sorted(self.texts.items(), key=lambda each: _is_byte(each[1])):
            word = self._spelling(token)
            if word not in found:
                found[word] = token
            elif not _is_byte(text):
                ambiguous.add(word)
        return {word: token for word, token in found.items() if word not in ambiguous}

    def padding(self) -> set[int]:
        """The id that only fills up rows, if there is one."""
        others = {token for role, token in self.roles.items() if role != PADDING}
        return {self.roles[PADDING]} - others if PADDING in self.roles else set()

    def _spelling(self, token: int) -> str:
        text = self.texts[token]
        if token not in self.added:
            if self.spells_bytes or _is_byte(text):
                return text if self.spells_bytes else _BYTES[int(text[3:5], 16)]
            text = text.replace(_BLANK, " ")
        return "".join(_BYTES[each] for each in text.encode())


def _by_role(own: _Words, others: _Words, found: Mapping[int, int]) -> dict[int, int]:
    """Special tokens that have no counterpart by text, and those of the same role."""
    taken = set(found.values())
    chosen: dict[int, int] = {}
    for role, token in own.roles.items():
        other = others.roles.get(role)
        if token not in found and token not in chosen and other is not None and other not in taken:
            chosen[token] = other
            taken.add(other)
    return chosen


def _spells_bytes(tokenizer: "Tokenizer") -> bool | None:
    parts = (tokenizer.decoder, tokenizer.pre_tokenizer, tokenizer.normalizer)
    described = [json.loads(part.__getstate__()) for part in parts if part is not None]
    if any(each["type"] == "ByteLevel" for each in _steps(described)):
        return True
    text = json.dumps(described, ensure_ascii=False)
    return False if "Metaspace" in text or _BLANK in text else None


def _steps(described: Any) -> Iterator[JsonObject]:
    """Every object with a type in the description of a tokenizer's parts."""
    if isinstance(described, list):
        for each in described:
            yield from _steps(each)
    elif isinstance(described, dict):
        if "type" in described:
            yield described
        for value in described.values():
            yield from _steps(value)


def _is_byte(text: str) -> bool:
    return len(text) == 6 and text.startswith("<0x") and text.endswith(">")


def _byte_characters() -> list[str]:
    """The characters that stand for bytes in byte-level vocabularies (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(each if each in printable else next(others)) for each in range(256)]


_BYTES = _byte_characters()


def _lacking(words: Mapping[int, str], missing: list[int], param: str) -> InvalidRequest:
    shown = ", ".join(f"{token} {words[token]!r}" for token in missing[:SHOWN])
    return InvalidRequest(
        f"the teacher has another vocabulary: it lacks {len(missing):,} of the model's "
        f"{len(words):,} tokens" + (f", first {shown}" if shown else ""),
        param=param,
        code=CODE,
    )
