"""Evaluations: a model answers the prompts of a file, a grader compares with the golds."""

from typing import Annotated, Literal

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, StringConstraints

from services.contracts.base import Metadata, Number, Request, Resource
from services.contracts.engine import VllmOptions
from services.contracts.jobs import JobState, Placement
from services.contracts.origins import origin_of


class RemoteModel(Request):
    """A model behind an OpenAI-compatible URL whose origin the operator allows."""

    base_url: AnyHttpUrl = Field(description="Up to and including /v1.")
    model: str = Field(min_length=1, max_length=200)

    @property
    def origin(self) -> str:
        """Scheme, host and port: what the operator allows, and what a key belongs to."""
        return origin_of(self.base_url)


class ExactGrader(Request):
    """Right when the answer equals a gold, after stripping outer white space."""

    type: Literal["exact"] = "exact"
    ignore_case: StrictBool = False


class RegexGrader(Request):
    """Right when the pattern is found in the answer.

    The last match of its group (of the group named ``answer``, if there are several) is compared
    with the gold; without a group, finding the pattern is enough. Patterns are RE2's: matching
    takes linear time, and there is no look-around.
    """

    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, max_length=1000)
    ignore_case: StrictBool = False


class NumericGrader(Request):
    """Right when the last number of the answer equals the gold within the tolerances."""

    type: Literal["numeric"] = "numeric"
    absolute_tolerance: Number = Field(default=0.0, ge=0.0)
    relative_tolerance: Number = Field(default=1e-9, ge=0.0)


Grader = Annotated[ExactGrader | RegexGrader | NumericGrader, Field(discriminator="type")]


class Sampling(Request):
    """How answers are sampled; the defaults are greedy."""

    max_tokens: StrictInt = Field(default=512, ge=1, le=131_072)
    temperature: Number = Field(default=0.0, ge=0.0, le=2.0)
    top_p: Number = Field(default=1.0, gt=0.0, le=1.0)
    stop: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=4
    )
    seed: StrictInt | None = Field(default=0, ge=0, le=2**31 - 1)


class CreateEvaluation(Placement):
    """The body of POST /v1/evaluations."""

    model: str | RemoteModel = Field(examples=["tiny-base"])
    file: str = Field(
        min_length=1,
        max_length=200,
        description="Rows of {messages | prompt, gold}.",
        examples=["file-abc123"],
    )
    grader: Grader = Field(default_factory=ExactGrader)
    sampling: Sampling = Field(default_factory=Sampling)
    system_prompt: str | None = Field(default=None, max_length=100_000)
    max_samples: StrictInt | None = Field(
        default=None, ge=1, description="Take the first rows only."
    )
    max_concurrency: StrictInt = Field(default=64, ge=1, le=1024)
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Of the vLLM server of a local model."
    )
    metadata: Metadata | None = None


class EvaluationMetrics(Resource):
    """The outcome over all samples.

    ``accuracy`` counts a sample without an answer as wrong; ``errors`` says how many there are.
    ``stderr`` is the standard error of the mean, ``ci95`` Wilson's score interval.
    """

    samples: int
    correct: int
    errors: int
    accuracy: float
    stderr: float
    ci95: tuple[float, float]
    prompt_tokens: int
    completion_tokens: int
    generation_seconds: float
    tokens_per_second: float


class Evaluation(JobState):
    """An evaluation job."""

    object: Literal["evaluation"] = "evaluation"
    model: str | RemoteModel
    file: str
    grader: Grader
    sampling: Sampling
    metrics: EvaluationMetrics | None = None


class SampleResult(Resource):
    """One row of an evaluation: what was answered and how it was judged.

    ``correct`` is null when no answer came; ``error`` then says why, with the HTTP status.
    """

    id: str
    object: Literal["evaluation.result"] = "evaluation.result"
    index: int = Field(description="Row of the file, counted from 0.")
    gold: list[str]
    answer: str | None
    extracted: str | None = Field(default=None, description="What the grader compared.")
    correct: bool | None
    finish_reason: str | None = None
    error: str | None = None
    status_code: int | None = None
    attempts: int = 1
    latency_seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
