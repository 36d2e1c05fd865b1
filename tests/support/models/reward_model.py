"""Makes tiny reward models with random weights, and says how they score conversations.

    <training runtime>/bin/python tests/support/models/reward_model.py FOLDER CONVERSATIONS.json

``templated`` has a chat template and a padding token, ``plain`` neither. Scores are computed one
conversation at a time, by the library's own means, and printed as JSON by the model's name.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from tests.support.models.tiny_parts import build_tokenizer


def main(folder: Path, conversations: list[list[dict[str, Any]]]) -> None:
    torch.manual_seed(0)
    scores = {}
    for name in ("templated", "plain"):
        tokenizer = build_tokenizer()
        config = Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=32,
            num_labels=1,
            pad_token_id=tokenizer.pad_token_id if name == "templated" else None,
        )
        model = Qwen3ForSequenceClassification(config).eval()
        if name == "plain":
            tokenizer.chat_template = None
            tokenizer.pad_token = None
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        scores[name] = [_score(model, tokenizer, each) for each in conversations]
    print(json.dumps(scores))


def _score(model: Any, tokenizer: Any, messages: list[dict[str, Any]]) -> float:
    if tokenizer.chat_template is None:
        text = "\n".join(f"{each['role']}: {each['content']}" for each in messages)
    else:
        text = tokenizer.apply_chat_template(messages, tokenize=False)
    with torch.inference_mode():
        return float(model(**tokenizer(text, return_tensors="pt")).logits[0, 0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
