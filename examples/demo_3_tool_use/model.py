"""Create a tiny model with random weights, and a tokenizer trained on a few conversations.

    <training runtime>/bin/python model.py DIRECTORY CONVERSATIONS [--seed N]

``CONVERSATIONS`` is JSONL with ``messages`` and ``tools``. The model has Qwen3's architecture and
about 0.9 million parameters; head dimension (32) and untied embeddings work with vLLM on CPU. The
tokenizer is a byte-level BPE of 512 tokens with one token per digit, so that numbers are copied
digit by digit; its chat template has Qwen2.5's form. The arguments determine the result.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 512
MAX_LENGTH = 2048
END_OF_TURN = "<|im_end|>"
PADDING = "<|endoftext|>"
SPECIAL_TOKENS = (PADDING, "<|im_start|>", END_OF_TURN)
# Not special tokens: a decoder that skips those must leave them to tool parsers.
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
CHAT_TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")


def build_tokenizer(conversations: Path) -> PreTrainedTokenizerFast:
    """Train BPE on the rendered conversations."""
    wrapped = _wrapped(Tokenizer(models.BPE()))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            # No token spans a line break: turns begin and end there.
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL_TOKENS) - len(MARKERS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(conversations, wrapped), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKERS])
    return _wrapped(tokenizer)


def _wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=PADDING,
        model_max_length=MAX_LENGTH,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _texts(conversations: Path, tokenizer: PreTrainedTokenizerFast) -> Iterator[str]:
    """Yield rendered conversations without the markers, which are separate tokens."""
    with open(conversations, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            text = tokenizer.apply_chat_template(
                row["messages"], tools=row["tools"], tokenize=False
            )
            for marker in (*SPECIAL_TOKENS, *MARKERS):
                text = text.replace(marker, "\n")
            yield text


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A model for the tokenizer, with random weights from the seed."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        tie_word_embeddings=False,
        max_position_embeddings=MAX_LENGTH,
        # The usual 0.02 suits far wider models; with it, copying is learned half as fast.
        initializer_range=0.05,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("conversations", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tokenizer = build_tokenizer(arguments.conversations)
    model = build_model(tokenizer, arguments.seed)
    model.save_pretrained(arguments.directory)
    tokenizer.save_pretrained(arguments.directory)


if __name__ == "__main__":
    main()
