"""The text of every single token of a sequence, by a model's tokenizer."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from services.models.tokenizer_ids.prepared import MAX_TOKENIZER_BYTES
from services.rollouts.chat.files import refused

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONTEXT = 8
"""Tokens before the first that affect its text: an incomplete character, a leading space."""
LONGEST_CHARACTER = 4
"""Bytes of a UTF-8 character, and so the most tokens that it is split into."""
KEPT = 2
"""Cached tokenizers; one with a large vocabulary takes 100 MB and a second to load."""

_loading = Lock()


def open_tokenizer(folder: Path) -> "Tokenizer":
    """The tokenizer of the model in a folder; the latest few stay in memory.

    Raises InvalidRequest if tokenizer.json is missing, too large or unusable.
    """
    path = folder / "tokenizer.json"
    try:
        found = path.stat()
    except OSError as error:
        raise refused(f"{folder.name} has no tokenizer.json that can be read") from error
    if found.st_size > MAX_TOKENIZER_BYTES:
        raise refused(f"tokenizer.json of {folder.name} has {found.st_size:,} bytes; too many")
    with _loading:
        return _loaded(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=KEPT)
def _loaded(path: Path, _changed: int, _size: int) -> "Tokenizer":
    from tokenizers import Tokenizer  # noqa: PLC0415 - a gateway may never show a token

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise refused(f"tokenizer.json cannot be used: {error}") from None


def token_texts(
    tokenizer: "Tokenizer", token_ids: Sequence[int], start: int, end: int
) -> list[str]:
    """The texts of the tokens from ``start`` to ``end``, special tokens included.

    A character of several tokens is the text of the last of them, and the others are empty; bytes
    that are not UTF-8 become U+FFFD. For valid UTF-8 the texts join to the whole text.
    """
    begin = max(0, start - CONTEXT)
    ids = token_ids[begin : end + LONGEST_CHARACTER]
    return _texts(tokenizer, ids)[start - begin : end - begin]


def _texts(tokenizer: "Tokenizer", ids: Sequence[int]) -> list[str]:
    """Decode in small windows: a token's text depends on the one before it."""
    texts = [""] * len(ids)
    before = shown = 0  # the window begins at `before`, and the tokens before `shown` have a text
    for end in range(1, len(ids) + 1):
        known = _decoded(tokenizer, ids[before:shown])
        added = _decoded(tokenizer, ids[before:end])[len(known) :]
        is_partial = not added or added.endswith("\ufffd")
        if is_partial and end - shown < LONGEST_CHARACTER and end < len(ids):
            continue
        texts[end - 1] = added
        before, shown = shown, end
    return texts


def _decoded(tokenizer: "Tokenizer", ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))
