"""A tokenizer whose tokens have the texts that a test wants."""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, decoders, models


def write_worded_tokenizer(folder: Path, texts: Mapping[int, str]) -> None:
    """Put tokenizer.json into the folder of a model."""
    tokenizer = Tokenizer(models.WordLevel({text: number for number, text in texts.items()}))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
