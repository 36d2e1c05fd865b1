"""OpenAI's graders, field for field as in its API.

Templates contain placeholders such as ``{{ item.reference }}``, a field of the row,
``{{ sample.output_text }}``, the text of the model's last turn without its reasoning, or
``{{ sample.output_json.answer }}``, a field of that text when it is JSON.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StrictInt, Tag, model_validator

from services.contracts.base import Number, Request
from services.contracts.models.registered import RemoteModel
from services.contracts.validation import AtField

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


class StringCheckGrader(Request):
    """1 when the comparison holds, else 0.

    ``like`` tests whether the input contains the reference, ``ilike`` the same ignoring case.
    """

    type: Literal["string_check"] = "string_check"
    name: Name = Field(description="Name of the grader.")
    operation: Literal["eq", "ne", "like", "ilike"] = Field(
        description="Comparison of input and reference."
    )
    input: Template = Field(description="Template of the text to compare.")
    reference: Template = Field(description="Template of the text to compare it with.")


class TextSimilarityGrader(Request):
    """The similarity of two texts, from 0 to 1."""

    type: Literal["text_similarity"] = "text_similarity"
    name: Name = Field(description="Name of the grader.")
    input: Template = Field(description="Template of the text to compare.")
    reference: Template = Field(description="Template of the text to compare it with.")
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
    ] = Field(
        description="Similarity measure; cosine, which needs an embedding model, is not supported."
    )


class TextPart(Request):
    """A piece of text of a message."""

    type: Literal["input_text", "output_text", "text"] = Field(
        description="Kind of the part; all are text."
    )
    text: Template = Field(description="Template of the text.")


class GraderMessage(Request):
    """A message to the grading model; only text parts are supported."""

    role: Literal["user", "assistant", "system", "developer"] = Field(
        description="Role of the message."
    )
    content: Template | TextPart | Annotated[list[Template | TextPart], Field(max_length=100)] = (
        Field(description="Template of the message, or its parts.")
    )
    type: Literal["message"] = Field(
        default="message", description="Kind of the input; all are messages."
    )


Messages = Annotated[list[GraderMessage], Field(min_length=1, max_length=100)]


class SamplingParams(Request):
    """Sampling of the grading model; null means its server's default."""

    max_completions_tokens: StrictInt | None = Field(
        default=None, ge=1, le=131_072, description="Maximum tokens of an answer."
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        Field(default=None, description="Reasoning effort that is asked for.")
    )
    seed: StrictInt | None = Field(
        default=None,
        description="Seed of the sampling. Unless the temperature is 0, the seed of each request "
        "is derived from it and from what is judged. Null: the server draws one.",
    )
    temperature: Number | None = Field(
        default=None, ge=0.0, le=2.0, description="Sampling temperature."
    )
    top_p: Number | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Nucleus sampling: share of the probability mass to sample from.",
    )


class ScoreModelGrader(Request):
    """A score given by a language model; one outside ``range`` is an error."""

    type: Literal["score_model"] = "score_model"
    name: Name = Field(description="Name of the grader.")
    model: JudgeModel = Field(
        description="Grading model: a name of the operator's TEMPER_JUDGE_MODELS, or a model "
        "behind a URL whose origin the operator allows."
    )
    input: Messages = Field(description="Messages to the grading model.")
    range: Annotated[list[Number], Field(min_length=2, max_length=2)] = Field(
        default_factory=lambda: [0.0, 1.0],
        description="Least and largest score that the model may give.",
    )
    sampling_params: SamplingParams | None = Field(
        default=None,
        description="Sampling settings of the grading model; null: the server's defaults.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.range[0] >= self.range[1]:
            raise AtField("range", "range must go from a number to a larger one")
        return self


class LabelModelGrader(Request):
    """1 when a language model gives one of the passing labels, else 0."""

    type: Literal["label_model"] = "label_model"
    name: Name = Field(description="Name of the grader.")
    model: JudgeModel = Field(
        description="Grading model: a name of the operator's TEMPER_JUDGE_MODELS, or a model "
        "behind a URL whose origin the operator allows."
    )
    input: Messages = Field(description="Messages to the grading model.")
    labels: list[Label] = Field(
        min_length=1, max_length=100, description="Labels that the grading model may give."
    )
    passing_labels: list[Label] = Field(
        min_length=1, max_length=100, description="Labels that score 1."
    )
    sampling_params: SamplingParams | None = Field(
        default=None,
        description="Sampling settings of the grading model; null: the server's defaults.",
    )

    @model_validator(mode="after")
    def _subset(self) -> Self:
        unknown = [label for label in self.passing_labels if label not in self.labels]
        if unknown:
            raise AtField(
                "passing_labels", f"passing_labels has {unknown[0]!r}, which is not among labels"
            )
        return self


class PythonGrader(Request):
    """The return value of ``grade(sample, item)`` in the source, run in the sandbox."""

    type: Literal["python"] = "python"
    name: Name = Field(description="Name of the grader.")
    source: str = Field(
        min_length=1,
        max_length=MAX_SOURCE,
        description="Python source that defines grade(sample, item).",
    )
    image_tag: str | None = Field(
        default=None,
        max_length=200,
        description="Image tag of OpenAI's format, which has no effect.",
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
    name: Name = Field(description="Name of the grader.")
    graders: Annotated[
        Annotated[
            dict[Variable, _Partial], Field(min_length=1, max_length=MAX_PARTS), Tag("mapping")
        ]
        | Annotated[list[_Partial], Field(min_length=1, max_length=MAX_PARTS), Tag("list")]
        | Annotated[_Partial, Tag("single")],
        Discriminator(_shape),
    ] = Field(description="Graders by the variables of the formula.")
    calculate_output: str = Field(
        min_length=1, max_length=2000, description="Formula over the graders' scores."
    )

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
            raise AtField("graders", "graders in a list must have different names")
        return self


OpenAiGrader = PartialGrader | MultiGrader
