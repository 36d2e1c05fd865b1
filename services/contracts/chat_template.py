"""How texts become prompts: variables that a request passes to a model's own chat template, such as
``enable_thinking``, and what becomes of special tokens in the texts."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

_OURS = frozenset(
    {
        *("add_generation_prompt", "chat_template", "continue_final_message", "conversation"),
        *("documents", "max_length", "messages", "padding", "processor_kwargs", "return_dict"),
        *("return_assistant_tokens_mask", "return_tensors", "tokenize", "tokenizer_kwargs"),
        *("tools", "truncation"),
    }
)
"""Names that decide what is rendered, and how it is returned."""


def _open(variables: dict[str, "Value"]) -> dict[str, "Value"]:
    for name in variables:
        if name in _OURS or name.endswith("_token"):
            raise ValueError(f"{name} cannot be set")
    return variables


Value = StrictBool | StrictInt | StrictFloat | Annotated[str, StringConstraints(max_length=1000)]

ChatTemplateKwargs = Annotated[
    dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w{0,63}$")], Value],
    AfterValidator(_open),
    Field(
        max_length=16,
        description="Variables of the model's own chat template, as vLLM's field of this name; "
        "the same in training, rollouts and evaluations.",
        examples=[{"enable_thinking": False}],
    ),
]
"""At most 16 scalars by name. A variable that the template does not read is refused."""

ControlTokens = Annotated[
    Literal["encode", "neutralize"],
    Field(
        description="Special tokens that the texts of rows spell out, such as <|im_end|>: encode "
        "them as such, as servings do, or neutralize them to ordinary text, as in tool results."
    ),
]
"""What becomes of special tokens in texts that are not the chat template's own."""
