"""Telling models apart by what decides their vectors."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

_PIECE = 1 << 20
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "onnx/model.onnx*")
_SETTINGS = ("config.json", "modules.json", "sentence_bert_config.json", "*_*/config.json")
_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer.model"),
    "sentencepiece.bpe.model",
)


def fingerprint(folder: Path, *settings: object) -> str:
    """A text that two models share only if their weights, tokenizer, steps and ``settings`` do.

    What computes them, and with what precision, is not part of it: that changes vectors by less
    than searches notice.
    """
    digest = hashlib.sha256(json.dumps(settings).encode())
    for path in _deciding(folder):
        digest.update(f"\0{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    return digest.hexdigest()[:32]


def _deciding(folder: Path) -> Iterator[Path]:
    for pattern in (*_SETTINGS, *_TOKENIZERS):
        yield from sorted(folder.glob(pattern))
    weights = (sorted(folder.rglob(pattern)) for pattern in _WEIGHTS)
    yield from next((found for found in weights if found), [])
