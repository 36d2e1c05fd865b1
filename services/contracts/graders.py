"""Graders: those that compare with golds, and OpenAI's, field for field as in its API.

Every grader works in evaluations and as a reward. Templates contain placeholders such
as ``{{ item.reference }}``, a field of the row, ``{{ sample.output_text }}``, the text of the
model's last turn without its reasoning, or ``{{ sample.output_json.answer }}``, a field of that
text when it is JSON.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StrictBool, StrictInt, Tag, model_validator

from services.contracts.base import Number, Request
from services.contracts.models import RemoteModel

MAX_SOURCE = 262_144
MAX_PARTS = 50

Name = Annotated[str, Field(min_length=1, max_length=200)]
Template = Annotated[str, Field(max_length=100_000)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", max_length=100)]
JudgeName = Annotated[str, Field(min_length=1, max_length=200)]

JudgeModel = Annotated[
    JudgeName | RemoteModel,
    Field(
        description="A name of the operator's TEMPER_JUDGE_MODELS, or a model behind a URL whose "
        "origin the operator allows."
    ),
]
"""A language model that grades."""


class ExactGrader(Request):
    """Correct when the answer equals a gold after stripping outer white space."""

    type: Literal["exact"] = "exact"
    ignore_case: StrictBool = False


class RegexGrader(Request):
    """Correct when the pattern is found in the answer.

    The last match of its group (of the group named ``answer``, if there are several) is compared
    with the gold; without a group, finding the pattern is enough. Patterns are RE2's: matching
    takes linear time, and there is no look-around.
    """

    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, max_length=1000)
    ignore_case: StrictBool = False


class NumericGrader(Request):
    """Correct when the last number of the answer equals the gold within the tolerances."""

    type: Literal["numeric"] = "numeric"
    absolute_tolerance: Number = Field(default=0.0, ge=0.0)
    relative_tolerance: Number = Field(default=1e-9, ge=0.0)


class ToolCallsGrader(Request):
    """Correct when the answer states the calls of the gold: the same ones as often, in any order.

    The gold is JSON text, ``[{"toolName": ..., "paramList": {...}}]``. The answer's JSON is such a
    list, or holds one at ``path``; reasoning, prose and fences around it are ignored.
    """

    type: Literal["tool_calls"] = "tool_calls"
    path: str = Field(default="label", max_length=200)
    strict_types: StrictBool = Field(default=False, description='Tell 100 from "100".')


class BoxedIntegerGrader(Request):
    """Correct when the last closed \\boxed{...} of the answer holds the gold as an integer.

    Integers are compared by value: 073 equals 73. A box that holds anything else is wrong.
    """

    type: Literal["boxed_integer"] = "boxed_integer"


class ChoiceGrader(Request):
    """Correct when the answer names the option of the gold: its letter, or its position from 0.

    The letter is that of the last box, else the one behind the last "answer", "option" or "choice",
    else the one that the whole answer consists of or begins with, as in "(B)" or "B) Lima". A
    letter within prose, such as the article "A", is never read.
    """

    type: Literal["choice"] = "choice"
    options: StrictInt = Field(default=10, ge=2, le=26, description="Letters from A that count.")


GoldGrader = (
    ExactGrader | RegexGrader | NumericGrader | BoxedIntegerGrader | ChoiceGrader | ToolCallsGrader
)
"""A grader that compares the answer with the golds of its row; 1 when one matches, else 0."""


class MathGrader(Request):
    """1 when the last closed \\boxed{...} means the same as a gold, else 0.

    Of a gold that has boxes itself, such as a worked solution, the last one counts. An unevaluated
    expression does not equal a number.
    """

    type: Literal["math"] = "math"
    ordered: StrictBool = Field(
        default=False, description="The order of a list matters, as in a tuple."
    )


class TokenF1Grader(Request):
    """Token F1 of the answer and the closest gold, after SQuAD normalization: 0 to 1."""

    type: Literal["token_f1"] = "token_f1"


MetricsVariant = Literal["official", "fork"]
"""The published definitions of a benchmark's measures, or those of RD-Agent's fork of OpenCompass,
for comparison with its tables."""


OracleName = Literal["drd2", "jnk3", "gsk3b"]
"""Properties of molecules that only a trained model can tell."""


class ChemistryGrader(Request):
    """Grades answers about molecules, in the schema of ChemCoTBench (OpenMol/ChemCoTBench).

    The row says its sub-task in ``subtask``, and holds ``gt`` or ``query`` and ``meta``; the answer
    is JSON behind the reasoning. Scores are 1 for a right answer, 0 for a wrong, missing or
    impossible one, and the similarity of scaffolds; a better molecule is a right answer. Needs the
    runtime ``grading``.
    """

    type: Literal["chemistry"] = "chemistry"
    tasks: list[Literal["mol_und", "mol_edit", "mol_opt", "reaction"]] = Field(
        min_length=1, max_length=4, description="What the rows may be of."
    )
    metrics: MetricsVariant = Field(
        default="official",
        description="`fork`: an answer without a number is the number 0, and logp is plain "
        "MolLogP.",
    )


class PanoramaGrader(Request):
    """Correct when the answer names exactly the right options, or the right code of a claim, in the
    schema of PANORAMA (LG-AI-Research/PANORAMA), a benchmark of patent examination.

    The row has ``gold_answers`` and ``silver_answers``, or its gold is ``{"code": ...}``. The
    answer is JSON: ``{"answer": ["A"]}``, ``{"answer": 12}`` or ``{"code": "102"}``.
    """

    type: Literal["panorama"] = "panorama"
    task: Literal["par4pc", "pi4pc", "noc4pc"]
    metrics: MetricsVariant = Field(
        default="official",
        description="`fork`: par4pc has no silver answers, and the F1 of all options pooled; "
        "noc4pc leaves answers without a code out of its macro F1.",
    )


class FunctionCallsGrader(Request):
    """Correct when the answer states the calls that its row allows: the AST check of the Berkeley
    Function Calling Leaderboard.

    The row has ``function``, a list with ``name`` and ``parameters`` of each, and ``ground_truth``,
    a list of ``{name: {parameter: [allowed values]}}``. The answer is ``[name(key=value), ...]`` or
    JSON: a list of ``{"name": ..., "arguments": {...}}`` or of ``{name: {...}}``.
    """

    type: Literal["function_calls"] = "function_calls"
    expects: Literal["calls", "no_calls"] = Field(
        default="calls",
        description="no_calls: no function fits, and an answer without calls is right.",
    )


MeaningGrader = MathGrader | TokenF1Grader
"""A grader that compares the answer with the golds of its row by more than their characters."""


class StringCheckGrader(Request):
    """1 when the comparison holds, else 0.

    ``like`` tests whether the input contains the reference, ``ilike`` the same ignoring case.
    """

    type: Literal["string_check"] = "string_check"
    name: Name
    operation: Literal["eq", "ne", "like", "ilike"]
    input: Template
    reference: Template


class TextSimilarityGrader(Request):
    """The similarity of two texts, from 0 to 1."""

    type: Literal["text_similarity"] = "text_similarity"
    name: Name
    input: Template
    reference: Template
    evaluation_metric: Literal[
        "fuzzy_match",
        "bleu",
        "gleu",
        "meteor",
        "rouge_1",
        "rouge_2",
        "rouge_3",
        "rouge_4",
        "rouge_5",
        "rouge_l",
    ] = Field(description="Not cosine, which needs an embedding model.")


class TextPart(Request):
    """A piece of text of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: Template


class GraderMessage(Request):
    """A message to the grading model; only text parts are supported."""

    role: Literal["user", "assistant", "system", "developer"]
    content: Template | TextPart | Annotated[list[Template | TextPart], Field(max_length=100)]
    type: Literal["message"] = "message"


Messages = Annotated[list[GraderMessage], Field(min_length=1, max_length=100)]


class SamplingParams(Request):
    """Sampling of the grading model; null means its server's default."""

    max_completions_tokens: StrictInt | None = Field(default=None, ge=1, le=131_072)
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    seed: StrictInt | None = None
    temperature: Number | None = Field(default=None, ge=0.0, le=2.0)
    top_p: Number | None = Field(default=None, gt=0.0, le=1.0)


class ScoreModelGrader(Request):
    """A score given by a language model; one outside ``range`` is an error."""

    type: Literal["score_model"] = "score_model"
    name: Name
    model: JudgeModel
    input: Messages
    range: Annotated[list[Number], Field(min_length=2, max_length=2)] = Field(
        default_factory=lambda: [0.0, 1.0]
    )
    sampling_params: SamplingParams | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.range[0] >= self.range[1]:
            raise ValueError("range must go from a number to a larger one")
        return self


class LabelModelGrader(Request):
    """1 when a language model gives one of the passing labels, else 0."""

    type: Literal["label_model"] = "label_model"
    name: Name
    model: JudgeModel
    input: Messages
    labels: list[Label] = Field(min_length=1, max_length=100)
    passing_labels: list[Label] = Field(min_length=1, max_length=100)
    sampling_params: SamplingParams | None = None

    @model_validator(mode="after")
    def _subset(self) -> Self:
        unknown = [label for label in self.passing_labels if label not in self.labels]
        if unknown:
            raise ValueError(f"passing_labels has {unknown[0]!r}, which is not among labels")
        return self


class PythonGrader(Request):
    """The return value of ``grade(sample, item)`` in the source, run in the sandbox."""

    type: Literal["python"] = "python"
    name: Name
    source: str = Field(min_length=1, max_length=MAX_SOURCE)
    image_tag: str | None = Field(
        default=None, max_length=200, description="Accepted without effect."
    )


PartialGrader = (
    StringCheckGrader | TextSimilarityGrader | ScoreModelGrader | LabelModelGrader | PythonGrader
)
"""A grader that can be part of a multi grader."""


_Partial = Annotated[PartialGrader, Field(discriminator="type")]


def _shape(graders: Any) -> str | None:
    if isinstance(graders, list):
        return "list"
    if isinstance(graders, dict) and isinstance(graders.get("type"), str):
        return "single"
    if isinstance(graders, PartialGrader):
        return "single"
    return "mapping" if isinstance(graders, dict) else None


class MultiGrader(Request):
    """A formula over the scores of other graders, by their variables: ``(a + 2 * b) / 3``.

    Supports ``+ - * / ^``, parentheses, and min, max, abs, floor, ceil, exp, sqrt and log. The
    graders are given by variable, or as a list or a single one, whose names are the variables.
    """

    type: Literal["multi"] = "multi"
    name: Name
    graders: Annotated[
        Annotated[
            dict[Variable, _Partial], Field(min_length=1, max_length=MAX_PARTS), Tag("mapping")
        ]
        | Annotated[list[_Partial], Field(min_length=1, max_length=MAX_PARTS), Tag("list")]
        | Annotated[_Partial, Tag("single")],
        Discriminator(_shape),
    ]
    calculate_output: str = Field(min_length=1, max_length=2000)

    @property
    def by_variable(self) -> dict[str, PartialGrader]:
        """The graders by their variables in the formula."""
        if isinstance(self.graders, dict):
            return self.graders
        graders = self.graders if isinstance(self.graders, list) else [self.graders]
        return {grader.name: grader for grader in graders}

    @model_validator(mode="after")
    def _named_apart(self) -> Self:
        if isinstance(self.graders, list) and len(self.by_variable) < len(self.graders):
            raise ValueError("graders in a list must have different names")
        return self


OpenAiGrader = PartialGrader | MultiGrader
