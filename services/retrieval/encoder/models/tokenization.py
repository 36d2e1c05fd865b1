"""Texts as the numbers of a model's tokens."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from services.retrieval.encoder.models.configuration import ModelConfiguration, ModelUnusable

TOKENIZER = "tokenizer.json"


class TextTokenizer:
    """A model's own tokenizer; may be used by several threads at once."""

    def __init__(self, configuration: ModelConfiguration, max_tokens: int) -> None:
        """Texts will be cut to ``max_tokens``, with those that begin and end them."""
        path: Path = configuration.folder / TOKENIZER
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises nothing more special
            raise ModelUnusable(f"{path}: {error}") from None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._lower_case = configuration.lower_case

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text; at least one, also of an empty text."""
        if self._lower_case:
            texts = [text.lower() for text in texts]
        return [encoding.ids or [0] for encoding in self._tokenizer.encode_batch(list(texts))]


Batch = list[int]
"""Positions of texts, from the shortest to the longest."""


def by_length(lengths: Sequence[int], *, most_tokens: int, most_rows: int) -> Iterator[Batch]:
    """All positions of ``lengths``, the short ones first, in batches that hold no more than
    ``most_rows`` texts and, when each text is as long as the longest of its batch, no more than
    ``most_tokens`` tokens (but always one text).
    """
    batch: Batch = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens = (len(batch) + 1) * lengths[position]
        if batch and (len(batch) == most_rows or tokens > most_tokens):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def runs(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of equal values in sorted ``lengths``: how many there are, and the value."""
    begin = 0
    for position in range(1, len(lengths) + 1):
        if position == len(lengths) or lengths[position] != lengths[begin]:
            yield position - begin, lengths[begin]
            begin = position
