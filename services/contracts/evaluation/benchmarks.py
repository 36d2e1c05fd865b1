"""Named benchmarks: how rows of a published dataset become prompts, and how they are graded."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from services.contracts.base import JsonObject, Request
from services.contracts.evaluation.metrics import Direction, MetricName
from services.contracts.rewards.graders import (
    MetricsVariant,
)
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.validation import AtField

QUESTION = "{question}"
"""The placeholder of a row's question in a prompt; other braces are text."""

FieldPath = Annotated[str, StringConstraints(min_length=1, max_length=200)]
PlaceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
SplitName = Literal["search", "final"]
"""A part of a benchmark's rows: the one whose scores may guide work, or the one for the final
score."""


_TASK = {
    *("question", "answer", "answer_range"),
    *("choices", "labels", "incorrect"),
    *("tests", "setup"),
}


class Benchmark(Request):
    """The fields of a row, the prompt around its question, and the grader of the answers.

    Of an answer that ends with ``#### 72``, as in GSM8K, the gold is 72.
    """

    question: FieldPath = Field(
        default="question",
        description="Dotted path to the question: a text, a list of messages, whose texts are "
        "joined, or an object, which becomes JSON.",
    )
    answer: FieldPath | None = Field(
        default="answer",
        description="Dotted path to the gold: a text, a number, or a list of them; for tool_calls "
        "also a list of calls; null: the grader needs no gold.",
    )
    answer_range: tuple[StrictInt, StrictInt] | None = Field(
        default=None,
        description="Range of the integers that answers may be, both bounds included; another "
        "gold is an error.",
    )
    choices: FieldPath | None = Field(
        default=None,
        description="Dotted path to the texts of options, which become lines with letters behind "
        "the question.",
    )
    labels: FieldPath | None = Field(
        default=None,
        description="Dotted path to the names of the options; the answer is one of them.",
    )
    incorrect: list[FieldPath] = Field(
        default_factory=list,
        max_length=25,
        description="Dotted paths to wrong options: these and the answer, in an order that depends "
        "on the row alone, become lines with letters behind the question.",
    )
    prompt: str = Field(
        default=QUESTION,
        max_length=100_000,
        description="Template of the prompt, with {question} once and {NAME} for each of the "
        "fields.",
    )
    fields: dict[PlaceName, FieldPath] = Field(
        default_factory=dict,
        max_length=20,
        description="Dotted paths to further texts, numbers, lists of texts, which become "
        "lines, and objects, which become JSON, for the places of the same name in the prompt, "
        "tests and setup.",
    )
    tests: str | None = Field(
        default=None,
        max_length=100_000,
        description="Python template with the places of fields that makes the tests of a row: its "
        "only piece of code in `tests`, for code_tests.",
    )
    setup: str | None = Field(
        default=None,
        max_length=100_000,
        description="Python template with the places of fields that is run before the program: the "
        "row's `setup`, for code_tests with setup_field.",
    )
    subtasks: list[FieldPath] = Field(
        default_factory=list,
        max_length=5,
        description="Dotted paths to the texts that name the sub-task of a row; each sub-task is "
        "split by itself.",
    )
    shuffles: bool = Field(
        default=False, description="Whether the rows of a sub-task are shuffled before a split."
    )
    grader: EvaluationGrader = Field(description="Grader of the answers.")
    metric: MetricName | None = Field(
        default=None,
        description="Metric of the benchmark in leaderboards, comparisons and means; null: the "
        "one that the grader names, such as the published score of panorama, else accuracy.",
    )
    direction: Direction | None = Field(
        default=None,
        description="Direction of the metric; null: higher values are better. `minimize` goes "
        "with mean_score.",
    )

    @property
    def task(self) -> JsonObject:
        """What is asked of a row and what is right, whatever the prompt around the question; golds
        may be in the code of tests."""
        code = (self.tests or "") + (self.setup or "")
        fields = {name: path for name, path in self.fields.items() if f"{{{name}}}" in code}
        return {**self.model_dump(include=_TASK), "fields": fields}

    @model_validator(mode="after")
    def _metric_has_the_direction(self) -> Self:
        if self.direction == "minimize" and self.metric != "mean_score":
            raise AtField(
                "direction",
                "direction: minimize goes with metric: mean_score only; accuracy, majority and "
                "pass_at_k count correct answers, of which more are better",
            )
        return self

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.prompt.count(QUESTION) != 1:
            raise AtField("prompt", f"prompt must contain {QUESTION} once")
        if QUESTION[1:-1] in self.fields:
            raise AtField(
                ("fields", QUESTION[1:-1]),
                f"fields must not name {QUESTION}, which is the question",
            )
        if self.answer_range is not None and self.answer is None:
            raise AtField("answer_range", "answer_range is that of answer, which is missing")
        if self.labels is not None and self.choices is None:
            raise AtField("labels", "labels name the options of choices, which is missing")
        if self.incorrect and (self.choices is not None or self.answer is None):
            raise AtField("incorrect", "incorrect goes with answer, and without choices")
        for name in self.fields:
            if f"{{{name}}}" not in self.prompt + (self.tests or "") + (self.setup or ""):
                raise AtField(
                    ("fields", name),
                    f"fields.{name} has no place {{{name}}} in prompt, tests or setup",
                )
        return self


_PANORAMA = ("panorama_par4pc", "panorama_pi4pc", "panorama_noc4pc")
COMPOSITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"panorama": _PANORAMA, "panorama_cot": tuple(f"{name}_cot" for name in _PANORAMA)}
)
"""Names that stand for several benchmarks, each with a file of its own."""


def benchmark_of(given: str | Benchmark) -> Benchmark:
    """A benchmark by its name or definition; raises `ValueError` that lists the known names."""
    if isinstance(given, Benchmark):
        return given
    if given in COMPOSITES:
        raise AtField(
            "benchmark",
            f"{given} is several benchmarks: give it in benchmarks, with files for each of "
            f"{', '.join(COMPOSITES[given])}",
        )
    # The table takes longer to build than everything else that a command imports for a request.
    from services.contracts.evaluation.named_benchmarks import BENCHMARKS  # noqa: PLC0415

    if given not in BENCHMARKS:
        known = ", ".join(sorted({*BENCHMARKS, *COMPOSITES}))
        raise AtField("benchmark", f"no benchmark {given!r}; there are {known}")
    return BENCHMARKS[given]


def graded_by(given: str | Benchmark, metrics: MetricsVariant) -> EvaluationGrader:
    """The grader of a benchmark with these definitions of its measures.

    Raises `ValueError` like `benchmark_of`, and for a benchmark that has no other definitions.
    """
    grader = benchmark_of(given).grader
    if metrics == "official":
        return grader
    if "metrics" not in type(grader).model_fields:
        raise AtField("metrics", f"metrics: {metrics} is for panorama and chemcotbench only")
    return grader.model_copy(update={"metrics": metrics})
