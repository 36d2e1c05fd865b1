"""Embedding models for a real engine, and what sentence-transformers computes with them.

``python tests/support/models/embedding_models.py FOLDER``, run with the Python of the runtime
``encoder``, makes there ``encoder``, a BERT pooled by its mean, and pools ``reader``, a language
model that is there already, by its last token. The texts of the JSON list ``texts.json`` in FOLDER,
encoded by each, are in ``expected.json``.
"""

import json
import sys
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MODULES = "sentence_transformers.models"


def make_encoder(folder: Path) -> None:
    """A BERT with random weights, large enough to tell texts apart; heads as vLLM wants them."""
    torch.manual_seed(1)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{x}" for x in LETTERS)]
    tokenizer = BertTokenizerFast(vocab={word: number for number, word in enumerate(words)})
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    bare = folder / "bare"
    BertModel(config).save_pretrained(bare)
    tokenizer.save_pretrained(bare)
    steps = [Transformer(str(bare), max_seq_length=64), Pooling(128, pooling_mode="mean")]
    SentenceTransformer(modules=[*steps, Normalize()], device="cpu").save_pretrained(
        str(folder / "encoder")
    )


def pool(model: Path) -> None:
    """Let a language model embed by its last token, as Qwen3-Embedding does."""
    names = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"{MODULES}.{name}"}
        for index, (name, path) in enumerate(names.items())
    ]
    (model / "modules.json").write_text(json.dumps(modules))
    (model / "2_Normalize").mkdir()
    (model / "1_Pooling").mkdir()
    size = json.loads((model / "config.json").read_bytes())["hidden_size"]
    pooling = {"word_embedding_dimension": size, "pooling_mode_lasttoken": True}
    pooling |= {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": False}
    (model / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def main(folder: Path) -> None:
    """Make the models and compute what is expected of them."""
    make_encoder(folder)
    pool(folder / "reader")
    texts = json.loads((folder / "texts.json").read_bytes())
    expected = {
        name: SentenceTransformer(str(folder / name), device="cpu").encode(texts).tolist()
        for name in ("encoder", "reader")
    }
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
