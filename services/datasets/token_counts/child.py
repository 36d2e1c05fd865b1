"""The child that counts tokens: a hostile file or tokenizer costs only its time and memory.

Run as ``python -m services.datasets.token_counts.child`` by `services.core.process.worker_pool`.
"""

import resource
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from services.core.process.worker_child import serve
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem
from services.datasets.statistics import MAX_ROWS, lengths

MEMORY_BYTES = 4 << 30
BATCH_CHARACTERS = 256 * 1024
PIECE_CHARACTERS = 64 * 1024
"""A longer text is counted piece by piece, which bounds memory; a cut may add a token."""


def answer(given: dict[str, Any]) -> dict[str, Any]:
    """Token statistics of the file ``path``, as far as ``most_characters`` of its texts reach.

    Rows that cannot be read are left out. ``rows`` is null when all have been counted.
    """
    tokenizer = Tokenizer.from_file(str(given["tokenizer"]))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counted = _Counted(tokenizer, int(given["most_characters"]))
    for record in open_records(Path(given["path"])):
        if counted.is_full:
            break
        if not isinstance(record, Problem):
            counted.add(list(_texts(record.value)))
    else:
        counted.is_full = False
    return counted.statistics()


class _Counted:
    """Tokens of rows so far; rows are encoded in batches."""

    def __init__(self, tokenizer: Tokenizer, most: int) -> None:
        self._tokenizer = tokenizer
        self._left = most
        self._tokens = array("q")
        self._pieces: list[str] = []
        self._of_rows: list[int] = []
        self._characters = 0
        self.is_full = False

    def add(self, texts: list[str]) -> None:
        """Count a row."""
        pieces = [piece for text in texts for piece in _pieces(text)]
        self._pieces += pieces
        self._of_rows.append(len(pieces))
        size = sum(map(len, pieces))
        self._characters += size
        self._left -= size
        self.is_full = self._left <= 0 or len(self._tokens) + len(self._of_rows) >= MAX_ROWS
        if self._characters > BATCH_CHARACTERS:
            self._flush()

    def statistics(self) -> dict[str, Any]:
        """Statistics of the rows; raises ValueError if there are none."""
        self._flush()
        if not self._tokens:
            raise ValueError("the file has no rows")
        found = lengths(self._tokens)
        rows = len(self._tokens) if self.is_full else None
        return found.model_copy(update={"rows": rows}).model_dump()

    def _flush(self) -> None:
        encoded = self._tokenizer.encode_batch_fast(self._pieces, add_special_tokens=False)
        sizes = iter([len(each) for each in encoded])
        for number in self._of_rows:
            self._tokens.append(sum(next(sizes) for _ in range(number)))
        self._pieces.clear()
        self._of_rows.clear()
        self._characters = 0


def _pieces(text: str) -> Iterator[str]:
    for begin in range(0, len(text), PIECE_CHARACTERS):
        yield text[begin : begin + PIECE_CHARACTERS]


def _texts(value: JsonValue) -> Iterator[str]:
    """All texts of a row; the reader bounds the depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    serve(lambda: answer)
