"""The tokens of rendered rows: those of the whole text, split where the row is split.

LLaMA-Factory 0.9.5 encodes every turn by itself, so that a token which reaches from one turn into
the next, or a blank that a tokenizer puts before a text, would differ from what serving sends.
"""

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from transformers import PreTrainedTokenizerBase

from services.datasets.rendering.text_encoding import TextEncoder, TokenizerEncoder
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.rows.examples import RENDERED
from services.trainer.offline.rows.slow_encoder import SlowEncoder

_encoders: WeakKeyDictionary[PreTrainedTokenizerBase, TextEncoder] = WeakKeyDictionary()


def encoder_of(tokenizer: PreTrainedTokenizerBase) -> TextEncoder:
    """The encoder of a loaded tokenizer, created once for each."""
    if (found := _encoders.get(tokenizer)) is None:
        found = _encoders[tokenizer] = _encoder(tokenizer)
    return found


def install_rendered_template() -> None:
    """Make the library's template for rendered rows encode the texts of a row as one."""
    template: Any = llamafactory_module("data.template").TEMPLATES[RENDERED]
    template._encode = encode_whole


def encode_whole(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[dict[str, str]],
    _system: str | None,
    _tools: str | None,
) -> list[list[int]]:
    """The ids of each text of a row; stands in for the library's ``Template._encode``."""
    texts = [message["content"] for message in messages]
    parts = encoder_of(tokenizer)("".join(texts)).parts([len(text) for text in texts])
    return [part.ids for part in parts]


def _encoder(tokenizer: PreTrainedTokenizerBase) -> TextEncoder:
    ends = [str(tokenizer.eos_token)] if tokenizer.eos_token else []
    if not tokenizer.is_fast:
        return SlowEncoder(tokenizer, ends)
    return TokenizerEncoder(
        tokenizer.backend_tokenizer.to_str(),
        ends=ends,
    )
