"""Named benchmarks: how rows of a published dataset become prompts, and how they are graded."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from services.contracts.base import Request
from services.contracts.evaluation.metrics import Direction, MetricName
from services.contracts.rewards.graders import (
    BoxedIntegerGrader,
    ChemistryGrader,
    ChoiceGrader,
    FunctionCallsGrader,
    MathGrader,
    MetricsVariant,
    NumericGrader,
    PanoramaGrader,
    TokenF1Grader,
    ToolCallsGrader,
)
from services.contracts.rewards.rewards import CodeTestsReward, EvaluationGrader
from services.contracts.validation import AtField

QUESTION = "{question}"
"""The placeholder of a row's question in a prompt; other braces are text."""

FieldPath = Annotated[str, StringConstraints(min_length=1, max_length=200)]
PlaceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
SplitName = Literal["search", "final"]
"""A part of a benchmark's rows: the one whose scores may guide work, or the one for the final
score."""


class Benchmark(Request):
    """The fields of a row, the prompt around its question, and the grader of the answers.

    Of an answer that ends with ``#### 72``, as in GSM8K, the gold is 72.
    """

    question: FieldPath = Field(
        default="question",
        description="Dotted path to a text, to a list of messages, whose texts are joined, or to "
        "an object, which becomes JSON.",
    )
    answer: FieldPath | None = Field(
        default="answer",
        description="Dotted path to a text, a number, or a list of them; for tool_calls also to a "
        "list of calls; null: the grader needs no gold.",
    )
    answer_range: tuple[StrictInt, StrictInt] | None = Field(
        default=None,
        description="Range of the integers that answers may be, both bounds included; another "
        "answer is an error.",
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
        description="Contains {question} once, and {NAME} for each of the fields.",
    )
    fields: dict[PlaceName, FieldPath] = Field(
        default_factory=dict,
        max_length=20,
        description="Dotted paths to further texts, numbers, lists of texts, which become "
        "lines, and objects, which become JSON, for the places of the same name in the prompt and "
        "in tests.",
    )
    tests: str | None = Field(
        default=None,
        max_length=100_000,
        description="Python with the places of fields: the row's only piece of code in `tests`, "
        "for code_tests.",
    )
    setup: str | None = Field(
        default=None,
        max_length=100_000,
        description="Python with the places of fields that is run before the program: the row's "
        "`setup`, for code_tests with setup_field.",
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


_BOXED_ANSWER = (
    "{question}\nPlease reason step by step, and put your final answer within \\boxed{}."
)
_BOXED_LETTER = (
    "Please reason step by step, and put the letter of the right option within \\boxed{}."
)

_ARC = Benchmark(
    choices="choices.text",
    labels="choices.label",
    answer="answerKey",
    prompt="{question}\n\n" + _BOXED_LETTER,
    grader=ChoiceGrader(options=5),
)
_FUNCTION_CALLS = Benchmark(
    question="question.0",
    answer=None,
    fields={"functions": "function"},
    prompt="These functions can be called, given as JSON:\n{functions}\n\n{question}\n\nAnswer "
    'with the calls to make, as a JSON list of objects with "name" and "arguments", or with [] if '
    "no function fits or a required argument is not known, and with nothing else.",
    grader=FunctionCallsGrader(),
)
_AIME_ANSWERS = (0, 999)
_SHORT_ANSWER = "{question}\nAnswer with a name, a number or a few words, and nothing else."

_ASKED = {
    "par4pc": "Which of the options disclose what the claim claims, in whole or in part? Answer "
    'with JSON alone, such as {"answer": ["A", "C"]}.',
    "pi4pc": "Which one of the paragraphs of the prior art is the most relevant to the claim? "
    'Answer with JSON alone, such as {"answer": 12}.',
    "noc4pc": "Is the claim allowed (ALLOW), not novel (102) or obvious (103)? Answer with "
    'JSON alone, such as {"code": "102"}.',
}
_PARTS = {
    "par4pc": {"options": "options"},
    "pi4pc": {"prior_art": "prior_art_specification", "options": "options"},
    "noc4pc": {"prior_art": "prior_art_specifications"},
}


def _panorama(task: Literal["par4pc", "pi4pc", "noc4pc"], *, reasons: bool = False) -> Benchmark:
    """A question of patent examination about a claim; ``reasons``: after reasoning about it."""
    asked = _ASKED[task]
    if reasons:
        asked = asked.replace("JSON alone", "your reasoning, step by step, and then JSON")
    parts = "".join(
        f"{name.replace('_', ' ').capitalize()}:\n{{{name}}}\n\n" for name in _PARTS[task]
    )
    return Benchmark(
        question="context",
        answer="answer" if task == "noc4pc" else None,
        fields={"claim": "claim_number", **_PARTS[task]},
        prompt=f"Patent application:\n{QUESTION}\n\n{parts}Claim {{claim}} is examined. {asked}",
        shuffles=True,
        grader=PanoramaGrader(task=task),
    )


ChemistryTask = Literal["mol_und", "mol_edit", "mol_opt", "reaction"]


def _chemistry(*tasks: ChemistryTask) -> Benchmark:
    return Benchmark(
        question="query",
        answer=None,
        subtasks=["task", "subtask"],
        shuffles=True,
        grader=ChemistryGrader(tasks=list(tasks)),
    )


BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        "arc_challenge": _ARC,
        "arc_easy": _ARC,
        "gpqa": Benchmark(
            question="Question",
            answer="Correct Answer",
            incorrect=["Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"],
            prompt="{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=4),
        ),
        "chemcotbench_mol_und": _chemistry("mol_und"),
        "chemcotbench_mol_edit": _chemistry("mol_edit"),
        "chemcotbench_mol_opt": _chemistry("mol_opt"),
        "chemcotbench_reaction": _chemistry("reaction"),
        "chemcotbench": _chemistry("mol_und", "mol_edit", "mol_opt", "reaction"),
        "bfcl_simple": _FUNCTION_CALLS,
        "bfcl_multiple": _FUNCTION_CALLS,
        "bfcl_parallel": _FUNCTION_CALLS,
        "bfcl_parallel_multiple": _FUNCTION_CALLS,
        "bfcl_irrelevance": _FUNCTION_CALLS.model_copy(
            update={"grader": FunctionCallsGrader(expects="no_calls")}
        ),
        "panorama_par4pc": _panorama("par4pc"),
        "panorama_pi4pc": _panorama("pi4pc"),
        "panorama_noc4pc": _panorama("noc4pc"),
        "panorama_par4pc_cot": _panorama("par4pc", reasons=True),
        "panorama_pi4pc_cot": _panorama("pi4pc", reasons=True),
        "panorama_noc4pc_cot": _panorama("noc4pc", reasons=True),
        "hotpotqa": Benchmark(prompt=_SHORT_ANSWER, grader=TokenF1Grader()),
        "triviaqa": Benchmark(
            answer="answer.aliases", prompt=_SHORT_ANSWER, grader=TokenF1Grader()
        ),
        "aime24": Benchmark(
            question="problem",
            prompt=_BOXED_ANSWER,
            answer_range=_AIME_ANSWERS,
            grader=BoxedIntegerGrader(),
        ),
        "aime25": Benchmark(
            question="problem",
            prompt="{question}\nRemember to put your final answer within \\boxed{}.",
            answer_range=_AIME_ANSWERS,
            grader=BoxedIntegerGrader(),
        ),
        "gsm8k": Benchmark(grader=NumericGrader()),
        "math": Benchmark(
            question="problem", answer="solution", prompt=_BOXED_ANSWER, grader=MathGrader()
        ),
        "math500": Benchmark(question="problem", prompt=_BOXED_ANSWER, grader=MathGrader()),
        "mmlu": Benchmark(
            choices="choices",
            prompt="{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=4),
        ),
        "mmlu_pro": Benchmark(
            choices="options",
            prompt="{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=10),
        ),
        "hellaswag": Benchmark(
            question="ctx",
            answer="label",
            choices="endings",
            prompt="Which option continues the text best?\n\n{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=4),
        ),
        "tool_calls": Benchmark(question="query", answer="label", grader=ToolCallsGrader()),
        "humaneval": Benchmark(
            question="prompt",
            answer=None,
            prompt="Complete this function. Answer with the whole program, its imports included, "
            "in a fenced code block.\n\n```python\n{question}\n```",
            fields={"test": "test", "entry_point": "entry_point", "begun": "prompt"},
            tests="{test}\n\ncheck({entry_point})\n",
            setup="{begun}",
            grader=CodeTestsReward(partial=False, setup_field="setup"),
        ),
        "mbpp": Benchmark(
            question="text",
            answer=None,
            prompt="You are an expert Python programmer, and here is your task: {question} Your "
            "code should pass these tests:\n\n{asserts}\n\nAnswer with a fenced code block.",
            fields={"asserts": "test_list", "setup": "test_setup_code"},
            tests="{setup}\n{asserts}\n",
            grader=CodeTestsReward(partial=False),
        ),
    }
)
"""Benchmarks by name, in the schemas in which their data is published."""


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
