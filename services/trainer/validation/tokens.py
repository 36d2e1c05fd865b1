"""How long the rows of a file are."""

from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from services.contracts.errors import JobFailed
from services.trainer.validation.example import Example
from services.trainer.validation.lengths import Lengths, LengthStatistics

_BATCH_CHARACTERS = 256 * 1024
_PIECE_CHARACTERS = 64 * 1024
_MARKERS = ("<|im_start|>", "<|im_end|>")


class RowLengths(Protocol):
    """Collects the lengths of rows."""

    def add(self, example: Example) -> None:
        """Count one row."""

    def statistics(self) -> LengthStatistics | None:
        """The figures of all rows counted so far; None without any."""


def row_lengths(tokenizer_file: Path | None, max_seq_length: int) -> RowLengths:
    """Lengths in tokens, or in characters without a tokenizer.

    Raises JobFailed for a file that is no tokenizer.
    """
    if tokenizer_file is None:
        return CharacterLengths()
    return TokenLengths(_load(tokenizer_file), max_seq_length)


class CharacterLengths:
    """Counts the characters of all texts of a row."""

    def __init__(self) -> None:
        self._lengths = Lengths()

    def add(self, example: Example) -> None:
        """Count one row."""
        self._lengths.add(len(example.tools) + sum(len(text) for _, text in example.turns))

    def statistics(self) -> LengthStatistics | None:
        """The figures of all rows counted so far; None without any."""
        return self._lengths.statistics("characters", limit=None)


class TokenLengths:
    """Counts the tokens of a row, in batches of rows.

    A row is rendered as ChatML: its tools as a first message, then for each message
    ``<|im_start|>role``, the text and ``<|im_end|>`` on lines, calls as JSON. Where the tokenizer
    lacks these markers, two tokens a message stand for them. This is close for models with such
    a template and an estimate for others: what a template adds of its own (a default system
    message, instructions for tools) is not counted.
    """

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int) -> None:
        self._tokenizer = tokenizer
        self._limit = max_seq_length
        known = all(tokenizer.token_to_id(marker) is not None for marker in _MARKERS)
        self._start, self._end = _MARKERS if known else ("", "")
        self._marker_tokens = 0 if known else len(_MARKERS)
        self._lengths = Lengths()
        self._batch: list[str] = []
        self._extra: list[int] = []
        self._characters = 0

    def add(self, example: Example) -> None:
        """Count one row."""
        turns = [("system", example.tools), *example.turns] if example.tools else example.turns
        text = "".join(f"{self._start}{role}\n{text}{self._end}\n" for role, text in turns)
        extra = self._marker_tokens * len(turns)
        if len(text) > _PIECE_CHARACTERS:
            self._lengths.add(self._count_in_pieces(text) + extra)
            return
        self._batch.append(text)
        self._extra.append(extra)
        self._characters += len(text)
        if self._characters > _BATCH_CHARACTERS:
            self._flush()

    def statistics(self) -> LengthStatistics | None:
        """The figures of all rows counted so far; None without any."""
        self._flush()
        return self._lengths.statistics("tokens", self._limit)

    def _flush(self) -> None:
        encodings = self._tokenizer.encode_batch_fast(self._batch, add_special_tokens=False)
        for encoding, extra in zip(encodings, self._extra, strict=True):
            self._lengths.add(len(encoding) + extra)
        self._batch.clear()
        self._extra.clear()
        self._characters = 0

    def _count_in_pieces(self, text: str) -> int:
        """Count a long text piece by piece, to bound memory; a cut may add a token."""
        return sum(
            len(self._tokenizer.encode(text[begin : begin + _PIECE_CHARACTERS], None, False, False))
            for begin in range(0, len(text), _PIECE_CHARACTERS)
        )


def _load(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        message = f"the model's {path.name} cannot be read: {error}"
        raise JobFailed(message, code="invalid_model", param="model") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
