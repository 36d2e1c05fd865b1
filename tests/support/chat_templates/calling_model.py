"""A tiny model that has memorized a few conversations; runs in the training runtime.

    python -m tests.support.chat_templates.calling_model learn FOLDER < examples
    python -m tests.support.chat_templates.calling_model score FOLDER < sequences > log-probs

Examples are a JSON list of {prompt, token_ids, mask}; sequences one of lists of token ids. Scores
are the log-probabilities of each token but the first, by one forward pass in float32.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

_STEPS = 140
_LEARNING_RATE = 4e-3


def learn(folder: Path, examples: list[dict[str, Any]]) -> None:
    """Train a model on the examples and save it to the folder."""
    torch.manual_seed(0)
    largest = max(token for each in examples for token in each["prompt"] + each["token_ids"])
    config = Qwen3Config(
        vocab_size=largest + 1,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=32,
        tie_word_embeddings=False,
        max_position_embeddings=2048,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=_STEPS)
    ids, labels = _batch(examples)
    for _ in range(_STEPS):
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"loss {loss.item():.4f}", file=sys.stderr)
    model.save_pretrained(folder)


def score(folder: Path, sequences: list[list[int]]) -> list[list[float]]:
    """The log-probability of each token but the first."""
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    scores = []
    with torch.inference_mode():
        for sequence in sequences:
            ids = torch.tensor([sequence])
            log_probs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
            scores.append(log_probs.gather(-1, ids[0, 1:, None])[:, 0].tolist())
    return scores


def _batch(examples: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, filled up behind, and labels where a model would have written them."""
    rows = [each["prompt"] + each["token_ids"] for each in examples]
    length = max(map(len, rows))
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    labels = torch.full((len(rows), length), -100)
    for number, (row, each) in enumerate(zip(rows, examples, strict=True)):
        ids[number, : len(row)] = torch.tensor(row)
        mask = torch.tensor([0] * len(each["prompt"]) + each["mask"], dtype=torch.bool)
        labels[number, : len(row)][mask] = ids[number, : len(row)][mask]
    return ids, labels


def main() -> None:
    command, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    content = json.load(sys.stdin)
    if command == "learn":
        learn(folder, content)
    else:
        json.dump(score(folder, content), sys.stdout)


if __name__ == "__main__":
    main()
