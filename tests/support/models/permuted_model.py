"""A model whose tokens have other ids, and which is otherwise the same."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any


def permute_tokenizer(source: Path, target: Path, seed: int = 3) -> dict[int, int]:
    """Copy a model's files, and give the tokens of tokenizer.json other ids; returns that of
    each."""
    shutil.copytree(source, target)
    path = target / "tokenizer.json"
    described: dict[str, Any] = json.loads(path.read_text())
    vocabulary: dict[str, int] = described["model"]["vocab"]
    added = described["added_tokens"]
    old = sorted(vocabulary.values())
    new = dict(zip(old, Random(seed).sample(old, len(old)), strict=True))
    described["model"]["vocab"] = {text: new[token] for text, token in vocabulary.items()}
    # The library numbers those beside the vocabulary itself.
    new |= {each["id"]: each["id"] for each in added if each["id"] not in new}
    described["added_tokens"] = sorted(
        ({**each, "id": new[each["id"]]} for each in added), key=lambda each: int(each["id"])
    )
    path.write_text(json.dumps(described))
    return new


def permute_model(source: Path, target: Path, seed: int = 3) -> None:
    """The same for the rows of its embeddings and of its output layer; in the training runtime."""
    import torch
    from transformers import AutoModelForCausalLM

    new = permute_tokenizer(source, target, seed)
    model = AutoModelForCausalLM.from_pretrained(source)
    rows = torch.arange(model.config.vocab_size)
    rows[list(new.values())] = torch.tensor(list(new))
    with torch.no_grad():
        for layer in {model.get_input_embeddings(), model.get_output_embeddings()}:
            layer.weight.copy_(layer.weight[rows].clone())
            if model.config.tie_word_embeddings:
                break
    model.save_pretrained(target)
