"""Create a tiny base model with random weights, for demonstrations and tests.

    <training runtime>/bin/python examples/demo_1_addition/model.py DIRECTORY [--seed N]

The model has Qwen3's architecture and about half a million parameters. Its head dimension (32)
and untied embeddings work with vLLM, also on CPU. The tokenizer is byte-level, with tokens for
the markers that chat models use for turns, tools and thoughts. The seed determines the weights.
"""

import argparse
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

END_OF_TURN = "<|im_end|>"
PADDING = "<|endoftext|>"
SPECIAL_TOKENS = (PADDING, "<|im_start|>", END_OF_TURN)
# Not special tokens: a decoder that skips those must leave them to tool parsers.
MARKERS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
MAX_LENGTH = 4096

CHAT_TEMPLATE = """\
{%- set first = messages[0] if messages else none %}
{%- if tools or (first and first.role == 'system') %}
{{- '<|im_start|>system\\n' }}
{%- if first and first.role == 'system' %}{{- first.content }}{% endif %}
{%- if tools %}
{{- '\\n\\n' if first and first.role == 'system' else '' }}
{{- 'Tools, one JSON object a line:\\n' }}
{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{% endfor %}
{{- 'To call one: <tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'system' and loop.first %}
{%- elif message.role == 'tool' %}
{%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{% endif %}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content %}{{- message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{%- set function = call.function or call %}
{%- if message.content or not loop.first %}{{- '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": ' }}{{- function.name | tojson }}{{- ', "arguments": ' }}
{%- if function.arguments is string %}{{- function.arguments }}
{%- else %}{{- function.arguments | tojson }}{% endif %}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token per byte, special token and marker."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKERS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=PADDING,
        model_max_length=MAX_LENGTH,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A model for the tokenizer, with random weights from the seed."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        tie_word_embeddings=False,
        max_position_embeddings=MAX_LENGTH,
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
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, arguments.seed)
    model.save_pretrained(arguments.directory)
    tokenizer.save_pretrained(arguments.directory)


if __name__ == "__main__":
    main()
