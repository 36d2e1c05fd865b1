"""Texts as the numbers of a model's tokens."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from services.retrieval.encoder.models.configuration import ModelConfiguration
from services.retrieval.encoder.models.errors import ModelUnusable

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
