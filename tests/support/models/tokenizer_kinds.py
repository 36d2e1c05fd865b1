"""Model folders whose tokenizers are declared and built as those of published families."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

from tests.support.chat_templates.tiny_tokenizers import byte_level, sentence_pieces

MARKS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
_NAMED = {"bos_token": "<s>", "eos_token": "</s>"}


def _byte_level(*, composed: bool = True) -> Tokenizer:
    tokenizer = byte_level(MARKS, ("<think>",), digits="{1,3}")
    if not composed:
        tokenizer.normalizer = None
    return tokenizer


def _pieces(*steps: normalizers.Normalizer) -> Tokenizer:
    """SentencePiece whose blanks are the normalizer's work."""
    tokenizer = sentence_pieces(MARKS)
    tokenizer.normalizer = normalizers.Sequence(list(steps))
    tokenizer.pre_tokenizer = None
    return tokenizer


def _gemma() -> Tokenizer:
    tokenizer = _pieces(normalizers.Replace(" ", "▁"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(" "), "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


_PREPEND = (normalizers.Prepend("▁"), normalizers.Replace(" ", "▁"))
_BARE = (normalizers.Replace(" ", "▁"),)


@dataclass(frozen=True)
class TokenizerKind:
    """How a family is published. ``differs``: transformers builds it otherwise than its
    tokenizer.json says, in at least one runtime."""

    model_type: str
    declared: str
    tokenizer: Callable[[], Tokenizer]
    differs: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """The files of a model of this kind, but its weights."""
        folder.mkdir(parents=True)
        self.tokenizer().save(str(folder / "tokenizer.json"))
        config = {"tokenizer_class": self.declared, **_NAMED, **self.settings}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "config.json").write_text(json.dumps({"model_type": self.model_type}))
        return folder


KINDS: Mapping[str, TokenizerKind] = {
    "r1_distill_llama": TokenizerKind("llama", "LlamaTokenizerFast", _byte_level, True),
    "llama3_saved_as_llama": TokenizerKind("llama", "LlamaTokenizer", _byte_level, True),
    "r1_qwen3": TokenizerKind("qwen3", "LlamaTokenizerFast", _byte_level, True),
    "r1_distill_qwen": TokenizerKind(
        "qwen2", "LlamaTokenizerFast", lambda: _byte_level(composed=False), True
    ),
    "qwen2_without_nfc": TokenizerKind(
        "qwen2", "Qwen2Tokenizer", lambda: _byte_level(composed=False), True
    ),
    "llama2": TokenizerKind(
        "llama", "LlamaTokenizer", lambda: _pieces(*_PREPEND), True, {"legacy": False}
    ),
    "llama2_legacy": TokenizerKind(
        "llama", "LlamaTokenizer", lambda: _pieces(*_PREPEND), True, {"legacy": True}
    ),
    "minicpm": TokenizerKind("llama", "LlamaTokenizer", lambda: _pieces(*_BARE), True),
    "mistral": TokenizerKind("mistral", "LlamaTokenizerFast", lambda: sentence_pieces(MARKS)),
    "gemma": TokenizerKind("gemma2", "GemmaTokenizer", _gemma),
    "deepseek_v3": TokenizerKind("deepseek_v3", "LlamaTokenizerFast", _byte_level),
    "qwen2": TokenizerKind("qwen2", "Qwen2Tokenizer", _byte_level),
    "llama3": TokenizerKind("llama", "PreTrainedTokenizerFast", _byte_level),
    "added_tokens_declared_otherwise": TokenizerKind(
        "llama",
        "PreTrainedTokenizerFast",
        _byte_level,
        True,
        {
            "added_tokens_decoder": {
                "9000": {"content": "Hello", "special": True},
                "9001": {"content": "world", "lstrip": True, "special": False},
            }
        },
    ),
    "extra_special_tokens": TokenizerKind(
        "llama",
        "PreTrainedTokenizerFast",
        _byte_level,
        True,
        {"extra_special_tokens": {"image_token": "<think>", "audio_token": "world"}},
    ),
    "special_tokens_without_rows": TokenizerKind(
        "llama",
        "PreTrainedTokenizerFast",
        _byte_level,
        True,
        {"pad_token": "[PAD]", "additional_special_tokens": ["world"]},
    ),
}
