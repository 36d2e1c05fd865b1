"""What a model's tokenizer decides about training: the chat template and where turns end."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from services.trainer.errors import TrainingFailure
from services.trainer.sft.dataset import RENDERED, Layout
from services.trainer.sft.library import llamafactory_module
from services.trainer.sft.spec import TrainingSpec


def load_tokenizer(model: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in the folder of a model; raises TrainingFailure."""
    try:
        return AutoTokenizer.from_pretrained(str(model), trust_remote_code=False)
    except (OSError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise TrainingFailure(
            f"the tokenizer cannot be loaded: {cause}", code="model_load_failed"
        ) from error


def layout(spec: TrainingSpec, tokenizer: PreTrainedTokenizerBase) -> Layout:
    """How rows are laid out for this model; raises TrainingFailure without a usable template."""
    if spec.template is not None:
        return _named_layout(spec.template)
    if not tokenizer.chat_template:
        raise TrainingFailure(
            "the model has no chat template; name one of LLaMA-Factory's",
            param="template",
            code="invalid_arguments",
        )

    def chat_template(
        messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        text = tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=prompt, tokenize=False
        )
        return str(text)

    return Layout(RENDERED, chat_template)


def stop_token_ids(tokenizer: PreTrainedTokenizerBase, chosen: Layout, response: str) -> list[int]:
    """The tokens that end a turn: the tokenizer's, the template's, and what a response ends with.

    The last only if it is a special token.
    """
    last = tokenizer.encode(response, add_special_tokens=False)[-1:]
    stops = [
        tokenizer.eos_token_id,
        *(token for token in last if token in tokenizer.all_special_ids),
        *(tokenizer.get_vocab().get(word) for word in chosen.stop_words),
    ]
    return list(dict.fromkeys(int(token) for token in stops if token is not None))


def _named_layout(name: str) -> Layout:
    template = llamafactory_module("data.template").TEMPLATES[name]
    wraps_results = any(
        "<tool_response>" in str(slot) for slot in template.format_observation.slots
    )
    between = "\n</tool_response>\n<tool_response>\n" if wraps_results else "\n"
    return Layout(name, between_results=between, stop_words=tuple(template.stop_words))
