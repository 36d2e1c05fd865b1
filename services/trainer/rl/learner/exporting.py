"""Model folders that an engine can serve: whole models, or adapters."""

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from services.trainer.rl.learner.folders import complete_folder

TOKENIZER_FILES = (
    *("added_tokens.json", "chat_template.jinja", "merges.txt", "special_tokens_map.json"),
    *("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt"),
)
GENERATION_CONFIG = "generation_config.json"


def write_model(
    model: Any, state: dict[str, Tensor], dtype: torch.dtype, base: Path, folder: Path
) -> None:
    """Write a model of transformers, or the adapter of one of PEFT, into a new folder.

    ``state`` are its weights by name, stored as ``dtype`` when it is a whole one. What else
    belongs to a model, its tokenizer and its template, comes from the folder ``base``.
    """
    with complete_folder(folder) as partial:
        if hasattr(model, "peft_config"):
            model.save_pretrained(str(partial), state_dict=state, save_embedding_layers=False)
            (partial / "README.md").unlink(missing_ok=True)  # a card without a word in it
        else:
            # That of the base is copied as it is: one that transformers finds fault with too.
            model.generation_config = GenerationConfig()
            model.save_pretrained(str(partial), state_dict=_stored(model, state, dtype))
            model.config.dtype = dtype  # what it computes in was just written there
            model.config.to_json_file(str(partial / "config.json"))
        for name in (*TOKENIZER_FILES, GENERATION_CONFIG):
            if (base / name).is_file():
                shutil.copyfile(base / name, partial / name)


def _stored(model: Any, state: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Weights in the precision they are stored in; of tied ones the first alone."""
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
        if name not in model.all_tied_weights_keys
    }
