"""Tokenization, and batching by length."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from services.retrieval.encoder.models.configuration import ModelConfiguration, ModelUnusable

TOKENIZER = "tokenizer.json"


class TextTokenizer:
    """A model's own tokenizer; thread-safe."""

    def __init__(self, configuration: ModelConfiguration, max_tokens: int) -> None:
        """Texts are truncated to ``max_tokens``, special tokens included."""
        path: Path = configuration.folder / TOKENIZER
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise ModelUnusable(f"{path}: {error}") from None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._lower_case = configuration.lower_case

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text; at least one, even for an empty text."""
        if self._lower_case:
            texts = [text.lower() for text in texts]
        return [encoding.ids or [0] for encoding in self._tokenizer.encode_batch(list(texts))]


Batch = list[int]
"""Positions of texts, shortest first."""


def by_length(lengths: Sequence[int], *, max_tokens: int, max_rows: int) -> Iterator[Batch]:
    """Batches of all positions of ``lengths``, short texts first.

    A batch has at most ``max_rows`` texts and, padded to its longest text, ``max_tokens`` tokens,
    but always one text.
    """
    batch: Batch = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens = (len(batch) + 1) * lengths[position]
        if batch and (len(batch) == max_rows or tokens > max_tokens):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def runs(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Run-length encoding of sorted ``lengths``: (count, length) pairs."""
    begin = 0
    for position in range(1, len(lengths) + 1):
        if position == len(lengths) or lengths[position] != lengths[begin]:
            yield position - begin, lengths[begin]
            begin = position
