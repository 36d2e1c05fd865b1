"""A tokenizer of which every word is a token."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers


def write_word_tokenizer(folder: Path) -> Path:
    """Put tokenizer.json into the folder of a model; return its path."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path
