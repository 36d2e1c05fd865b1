"""How texts become prompts, how answers are sampled, and which part of an answer is graded.

Prompts have variables that a request passes to a model's own chat template, such as
``enable_thinking``.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StringConstraints

from services.contracts.base import Number, Request

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


class Sampling(Request):
    """How answers are sampled; the defaults are greedy. Null leaves a setting to the model."""

    max_tokens: StrictInt = Field(
        default=512, ge=1, le=131_072, description="Maximum tokens of an answer."
    )
    temperature: Number = Field(default=0.0, ge=0.0, le=2.0, description="Sampling temperature.")
    top_p: Number = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Nucleus sampling: share of the probability mass to sample from.",
    )
    top_k: StrictInt | None = Field(
        default=None, ge=-1, description="Number of the most likely tokens to sample from; -1: all."
    )
    min_p: Number | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Minimum probability, relative to that of the most likely token.",
    )
    presence_penalty: Number | None = Field(
        default=None,
        ge=-2.0,
        le=2.0,
        description="Penalty of tokens that have occurred, whatever their number; 0: none.",
    )
    frequency_penalty: Number | None = Field(
        default=None,
        ge=-2.0,
        le=2.0,
        description="Penalty of a token for each time that it has occurred; 0: none.",
    )
    repetition_penalty: Number | None = Field(
        default=None,
        gt=0.0,
        le=2.0,
        description="Divisor of the logits of tokens that have occurred, a factor of negative "
        "ones; 1: no penalty.",
    )
    stop: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=4, description="Texts that end an answer."
    )
    seed: StrictInt | None = Field(
        default=0,
        ge=0,
        le=2**31 - 1,
        description="Seed from which the seed of each answer is derived, with the number of its "
        "row and of its sample; the same for every model. Null: the engine draws one.",
    )


class JsonPrediction(Request):
    """A value of the JSON in an answer, which is graded in place of the answer."""

    path: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="label",
        description="Dotted path of fields and list indexes to the graded value; empty: the whole "
        "JSON.",
    )
    reasoning_ends: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = (
        Field(
            default=None,
            min_length=1,
            max_length=10,
            description="Tags that end the reasoning of an answer.",
        )
    )
