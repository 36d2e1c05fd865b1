"""Benchmarks by name: how rows of a published data set become prompts, and how they are graded."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from services.contracts.base import Request
from services.contracts.graders import (
    BoxedIntegerGrader,
    ChoiceGrader,
    MathGrader,
    NumericGrader,
)
from services.contracts.rewards import EvaluationGrader

QUESTION = "{question}"
"""The place of a row's question in a prompt; other braces are text."""

FieldPath = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Benchmark(Request):
    """The fields of a row, the prompt around its question, and the grader of the answers.

    Of an answer that ends with ``#### 72``, as in GSM8K, the gold is 72.
    """

    question: FieldPath = Field(default="question", description="Dotted path to a text.")
    answer: FieldPath | None = Field(
        default="answer",
        description="Dotted path to a text, a number, or a list of them; null: the grader needs "
        "no gold.",
    )
    choices: FieldPath | None = Field(
        default=None,
        description="Dotted path to the texts of options, which become lines with letters behind "
        "the question.",
    )
    prompt: str = Field(
        default=QUESTION, max_length=100_000, description="Contains {question} once."
    )
    grader: EvaluationGrader

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.prompt.count(QUESTION) != 1:
            raise ValueError(f"prompt must contain {QUESTION} once")
        return self


_BOXED_ANSWER = (
    "{question}\nPlease reason step by step, and put your final answer within \\boxed{}."
)

BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        "aime24": Benchmark(
            question="problem",
            prompt=_BOXED_ANSWER,
            grader=BoxedIntegerGrader(),
        ),
        "aime25": Benchmark(
            question="problem",
            prompt="{question}\nRemember to put your final answer within \\boxed{}.",
            grader=BoxedIntegerGrader(),
        ),
        "gsm8k": Benchmark(grader=NumericGrader()),
        "math": Benchmark(
            question="problem", answer="solution", prompt=_BOXED_ANSWER, grader=MathGrader()
        ),
        "math500": Benchmark(question="problem", prompt=_BOXED_ANSWER, grader=MathGrader()),
        "mmlu": Benchmark(
            choices="choices",
            prompt="{question}\n\nPlease reason step by step, and put the letter of the right "
            "option within \\boxed{}.",
            grader=ChoiceGrader(options=4),
        ),
    }
)
"""Benchmarks by name, in the schemas in which their data are published."""


def benchmark_of(given: str | Benchmark) -> Benchmark:
    """A benchmark by its name or as it is; raises `ValueError` that lists the names there are."""
    if isinstance(given, Benchmark):
        return given
    if given not in BENCHMARKS:
        raise ValueError(f"no benchmark {given!r}; there are {', '.join(sorted(BENCHMARKS))}")
    return BENCHMARKS[given]
