"""Length statistics of training rows, in tokens or characters and in bounded memory."""

import math
from array import array
from pathlib import Path
from typing import Literal, Protocol

from tokenizers import Tokenizer

from services.contracts.errors import JobFailed
from services.contracts.training.checks import RowLengths
from services.datasets.formats import Example

MAX_COUNTED = 2**20
"""Lengths up to this are counted exactly; longer ones share the last bin."""

_BATCH_CHARACTERS = 256 * 1024
_PIECE_CHARACTERS = 64 * 1024
_MARKERS = ("<|im_start|>", "<|im_end|>")


class LengthCounter(Protocol):
    """Collects the lengths of rows."""

    def add(self, example: Example) -> None:
        """Count one row."""

    def statistics(self) -> RowLengths | None:
        """Statistics of all rows so far; None without any."""


def row_lengths(tokenizer_file: Path | None, max_seq_length: int) -> LengthCounter:
    """Lengths in tokens, or in characters without a tokenizer.

    Raises JobFailed for a file that is not a tokenizer.
    """
    if tokenizer_file is None:
        return CharacterLengths()
    return TokenLengths(_load(tokenizer_file), max_seq_length)


class CharacterLengths:
    """Counts the characters of all texts in a row."""

    def __init__(self) -> None:
        self._lengths = LengthHistogram()

    def add(self, example: Example) -> None:
        """Count one row."""
        self._lengths.add(len(example.tools) + sum(len(text) for _, text in example.turns))

    def statistics(self) -> RowLengths | None:
        """Statistics of all rows so far; None without any."""
        return self._lengths.statistics("characters", limit=None)


class TokenLengths:
    """Counts the tokens of each row, encoding rows in batches.

    A row is rendered as ChatML: its tools as a first message, then for each message
    ``<|im_start|>role``, the text and ``<|im_end|>`` on lines, calls as JSON. Where the tokenizer
    lacks these markers, each message counts two tokens for them. Exact up to a few tokens for
    ChatML models, an estimate for others: text that a template adds (a default system message,
    instructions for tools) is not counted.
    """

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int) -> None:
        self._tokenizer = tokenizer
        self._limit = max_seq_length
        known = all(tokenizer.token_to_id(marker) is not None for marker in _MARKERS)
        self._start, self._end = _MARKERS if known else ("", "")
        self._marker_tokens = 0 if known else len(_MARKERS)
        self._lengths = LengthHistogram()
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

    def statistics(self) -> RowLengths | None:
        """Statistics of all rows so far; None without any."""
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


class LengthHistogram:
    """An exact histogram of lengths."""

    def __init__(self) -> None:
        self._counts = array("Q")
        self._beyond = 0
        self._minimum = 0
        self._maximum = 0
        self._total = 0
        self._rows = 0

    def add(self, length: int) -> None:
        """Count one row."""
        if length > MAX_COUNTED:
            self._beyond += 1
        else:
            if length >= len(self._counts):
                self._counts.extend([0] * (length + 1 - len(self._counts)))
            self._counts[length] += 1
        self._minimum = length if not self._rows else min(self._minimum, length)
        self._maximum = max(self._maximum, length)
        self._total += length
        self._rows += 1

    def statistics(
        self, unit: Literal["tokens", "characters"], limit: int | None
    ) -> RowLengths | None:
        """Statistics of all lengths added, None without any; those over ``limit`` are truncated."""
        if not self._rows:
            return None
        return RowLengths(
            unit=unit,
            min=self._minimum,
            mean=round(self._total / self._rows, 1),
            p50=self._percentile(0.50),
            p95=self._percentile(0.95),
            max=self._maximum,
            total=self._total,
            truncated=None if limit is None else sum(self._counts[limit + 1 :]) + self._beyond,
        )

    def _percentile(self, share: float) -> int:
        """The smallest length that at least this share of the rows does not exceed."""
        wanted = math.ceil(share * self._rows)
        seen = 0
        for length, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return length
        return self._maximum
