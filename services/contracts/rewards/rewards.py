"""Rewards of trajectories: rules, code tests, models and graders, and their weights.

Only text that the model generated is scored, never text that a tool inserted.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, model_validator

from services.contracts.base import JsonObject, Number, Request
from services.contracts.rewards.graders import (
    ChemistryGrader,
    FunctionCallsGrader,
    GoldGrader,
    MeaningGrader,
    PanoramaGrader,
)
from services.contracts.rewards.openai_graders import JudgeModel, OpenAiGrader
from services.contracts.rollouts.sources import Sources
from services.contracts.sandbox.cases import (
    TESTLIB_ARGUMENTS,
    CheckerArguments,
    CheckerLanguage,
    CheckerVerdict,
    check_arguments,
)
from services.contracts.sandbox.programs import Language
from services.contracts.validation import AtField

DottedPath = Annotated[
    str, Field(max_length=300, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", examples=["shop.reward"])
]
FieldName = Annotated[str, Field(min_length=1, max_length=200)]


class SearchEmReward(Request):
    """Exact match after SQuAD normalization of the last <answer>, or else the last box: 1 or 0."""

    type: Literal["search_em"] = "search_em"
    format_score: Number = Field(
        default=0.0, description="Score of a well-formed but wrong answer."
    )


class RetoolReward(Request):
    """ReTool's reward: 1 when the last box of the model's own text is correct.

    Otherwise min(0, -1 + 0.1 for each turn that called a tool). Only the last 300 characters count,
    and a box is correct when it equals a gold after stripping outer white space.
    """

    type: Literal["retool"] = "retool"
    cap: StrictBool = Field(
        default=False,
        description="Whether to cap the reward as in verl's recipe: a wrong answer scores at "
        "most -0.6, with 0.05 added for each turn, of the model or of tools, after the first.",
    )
    plain: StrictBool = Field(
        default=False, description="Whether a wrong answer scores -1, as in the paper."
    )
    equivalence: Literal["exact", "math"] = Field(
        default="exact",
        description="Comparison of the answer with the gold. math: expressions that mean the same "
        "are equal, but an unevaluated expression does not equal a number.",
    )
    ordered: StrictBool = Field(
        default=False,
        description="Whether the order of a list matters, as in a tuple; with math only.",
    )
    strict: StrictBool = Field(
        default=False,
        description="Whether to compare as the published code does: the last 100 characters, "
        "without stripping.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cap and self.plain:
            raise AtField("plain", "cap and plain exclude each other")
        if self.ordered and self.equivalence != "math":
            raise AtField("ordered", "ordered is an option of equivalence math")
        if self.strict and self.equivalence != "exact":
            raise AtField("strict", "strict compares exactly: equivalence must be exact")
        return self


class HttpReward(Request):
    """A score from a service of the user.

    It receives {"trajectory": record} as JSON and returns {"score": number}. The record omits the
    lists of tokens; its ``response`` is the model's own text.
    """

    type: Literal["http"] = "http"
    url: AnyHttpUrl = Field(description="URL of the service; the operator must allow its origin.")
    timeout: Number = Field(
        default=30.0, gt=0.0, le=600.0, description="Time limit of one attempt, in seconds."
    )


class CallableReward(Request):
    """A score from a Python function: function(trajectory=record, **arguments).

    The record is a dictionary without the lists of tokens; its ``response`` is the model's own
    text. The function runs in a separate process, which is killed after ``timeout``.
    """

    type: Literal["callable"] = "callable"
    function: DottedPath = Field(description="Function, as module.name, that the operator allows.")
    arguments: JsonObject = Field(
        default_factory=dict, description="Further arguments of the function, by keyword."
    )
    timeout: Number = Field(
        default=30.0, gt=0.0, le=600.0, description="Time limit of one call, in seconds."
    )


class AgentReward(Request):
    """The score that the agent itself gave the session that it played."""

    type: Literal["agent"] = "agent"


class StepRewards(StrEnum):
    """Which of an environment's rewards a rollout is given."""

    SUM = "sum"
    LAST = "last"


class EnvironmentReward(Request):
    """The rewards that environments gave for the steps of a rollout; those of several are added.

    A step without one counts nothing, and a rollout that acts in none has 0. An episode that came
    to its end and never had a reward leaves the rollout without one.
    """

    type: Literal["environment"] = "environment"
    steps: StepRewards = Field(
        default=StepRewards.SUM,
        description="Combination of the environment's rewards: the sum of all, or only the last "
        "one.",
    )


class RewardModelReward(Request):
    """The score of a sequence classifier with one label, over the whole conversation."""

    type: Literal["reward_model"] = "reward_model"
    model: str = Field(
        min_length=1,
        max_length=300,
        description="Registered reward model that scores conversations.",
    )
    max_length: StrictInt = Field(
        default=4096,
        ge=16,
        le=1_048_576,
        description="Maximum tokens of a conversation; longer ones are truncated at the start.",
    )
    batch_size: StrictInt = Field(
        default=8, ge=1, le=256, description="Number of conversations that are scored at once."
    )
    sigmoid: StrictBool = Field(
        default=False, description="Whether scores are mapped to between 0 and 1."
    )


class RowChecker(Request):
    """A checker that rows bring along, for problems with several right outputs.

    It runs in the sandbox after each test whose program exited with 0, with the names of three
    files as arguments: the input, what the program printed and the expected output. A row where
    ``field`` is null or empty has its outputs compared. A checker that gives no verdict (an
    exception, a time-out, another exit status) leaves the sample out, as other failures of the
    infrastructure do.
    """

    field: FieldName = Field(
        default="checker", description="Field of the row with the source of its checker."
    )
    language: CheckerLanguage = Field(
        default=Language.PYTHON, description="Language of the checker."
    )
    arguments: CheckerArguments = TESTLIB_ARGUMENTS
    verdict: CheckerVerdict = Field(
        default=CheckerVerdict.EXIT_STATUS,
        description="Form of the checker's verdict. exit_status: testlib's, of which 0 is right "
        "and 1, 2, 4 and 8 are wrong. printed: the last word that it prints, 1 for "
        "right, 0 for wrong, or a share between.",
    )
    timeout: Number = Field(
        default=10.0, gt=0.0, le=120.0, description="Time limit of one verdict, in seconds."
    )
    files: dict[str, str] = Field(
        default={},
        max_length=20,
        description="Texts beside the checker's source, by name, such as testlib.h.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_arguments(self.arguments)
        if sum(map(len, self.files.values())) > MAX_CHECKER_FILES:
            raise AtField("files", f"files: are above {MAX_CHECKER_FILES:,} characters together")
        return self


MAX_CHECKER_FILES = 1_000_000


class CodeTestsReward(Request):
    """The fraction of tests passed by the last fenced code block of the language in the model's
    text, without its reasoning.

    The row's ``field`` holds them: a list of {input, output} or {stdin, expected_output}, an
    object {inputs: [...], outputs: [...]}, or, for Python, a list of texts, each a piece of code
    that is run behind the block and must not fail. A text is read as the JSON of one of these.
    Tests that are code or call a function run the block as a module that is not ``__main__``.
    """

    type: Literal["code_tests"] = "code_tests"
    field: FieldName = Field(default="tests", description="Field of the row with its tests.")
    language: Language = Field(
        default=Language.PYTHON, description="Programming language of the code in answers."
    )
    setup_field: FieldName | None = Field(
        default=None,
        description="Field of the row with Python that is run before the code of the answer, where "
        "tests are code or call a function: what a prompt begins with, such as imports; "
        "null: none.",
    )
    partial: StrictBool = Field(
        default=True,
        description="Whether the reward is the share of passed tests; false: 1 when all tests pass "
        "and 0 otherwise.",
    )
    tolerance: Number = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="Largest difference, relative or absolute, of equal numbers in outputs and "
        "return values.",
    )
    checker: RowChecker | None = Field(
        default=None,
        description="Program that judges outputs in place of a comparison; not for tests that are "
        "code or call a function.",
    )
    run_timeout: Number = Field(
        default=10.0, gt=0.0, le=120.0, description="Time limit of one test, in seconds."
    )
    memory_limit_mb: StrictInt = Field(
        default=1024, ge=16, le=65_536, description="Memory limit of a program in MiB."
    )


class JudgeReward(Request):
    """A score from a language model as a judge.

    ``prompt`` is a user's message with places like ``{{ item.question }}`` (a field of the row;
    ``item.gold`` is the right answer), ``{{ sample.output_text }}`` (the model's last turn),
    ``{{ sample.response }}`` (all its turns) and ``{{ sample.prompt }}`` (the conversation that
    it began with). Its answer gives the score behind its reasoning: as JSON, {"score": number}, or
    as the number behind the word "score" (limits of the scale and different scores of parts are
    none), or is nothing but a number. One outside of ``range`` is an error, and so is an answer
    that was cut off. With ``normalize`` the range is mapped to 0 and 1.
    """

    type: Literal["judge"] = "judge"
    model: JudgeModel = Field(
        description="Judge: a name of the operator's TEMPER_JUDGE_MODELS, or a model behind a URL "
        "whose origin the operator allows."
    )
    prompt: str = Field(
        min_length=1, max_length=100_000, description="Template of the judge's prompt."
    )
    system_prompt: str | None = Field(
        default=None, max_length=100_000, description="System message to the judge."
    )
    range: tuple[Number, Number] = Field(
        default=(0.0, 1.0), description="Least and largest score that the judge may give."
    )
    normalize: StrictBool = Field(
        default=False, description="Whether scores are mapped from the range to 0 to 1."
    )
    max_tokens: StrictInt = Field(
        default=1024, ge=1, le=131_072, description="Maximum tokens of the judge's answer."
    )
    temperature: Number = Field(
        default=0.0, ge=0.0, le=2.0, description="Sampling temperature of the judge."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_retired_name(cls, value: object) -> object:
        if isinstance(value, dict) and "normalise" in value:  # retired name
            raise AtField("normalise", "normalise has been renamed to normalize")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.range[0] >= self.range[1]:
            raise AtField("range", "range must go from a number to a larger one")
        return self


class PairwiseJudgeReward(Request):
    """How a language model compares the answer with the row's gold, which is another answer.

    1 where the answer is better, 0.5 where they are equal, 0 where it is worse. The judge is asked
    twice, with the answers in both orders, and the score is the mean: judges favor a position
    (Zheng et al. 2023, arXiv:2306.05685), and verdicts that contradict each other decide nothing.
    """

    type: Literal["pairwise_judge"] = "pairwise_judge"
    model: JudgeModel = Field(
        description="Judge: a name of the operator's TEMPER_JUDGE_MODELS, or a model behind a URL "
        "whose origin the operator allows."
    )
    rubric: str = Field(
        default="The better answer is correct, does what was asked, and is no longer than needed.",
        min_length=1,
        max_length=20_000,
        description="Criteria by which the judge compares two answers.",
    )
    max_tokens: StrictInt = Field(
        default=1024, ge=1, le=131_072, description="Maximum tokens of the judge's answer."
    )
    temperature: Number = Field(
        default=0.0, ge=0.0, le=2.0, description="Sampling temperature of the judge."
    )


class ExtensionReward(Request):
    """A score from an extension: a package that the operator has installed.

    The extension says what its settings are, and which rows it can score.
    """

    type: Literal["extension"] = "extension"
    name: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[\w.-]+$",
        description="Name of an entry point in the group temper.rewards.",
    )
    settings: JsonObject = Field(
        default_factory=dict, description="Settings of the extension, as it declares them."
    )


Reward = Annotated[
    SearchEmReward
    | RetoolReward
    | HttpReward
    | CallableReward
    | AgentReward
    | EnvironmentReward
    | RewardModelReward
    | CodeTestsReward
    | JudgeReward
    | PairwiseJudgeReward
    | ChemistryGrader
    | FunctionCallsGrader
    | PanoramaGrader
    | GoldGrader
    | MeaningGrader
    | OpenAiGrader
    | ExtensionReward,
    Field(discriminator="type"),
]

EvaluationGrader = Annotated[
    GoldGrader
    | MeaningGrader
    | SearchEmReward
    | CodeTestsReward
    | PairwiseJudgeReward
    | EnvironmentReward
    | ChemistryGrader
    | FunctionCallsGrader
    | PanoramaGrader
    | OpenAiGrader
    | ExtensionReward,
    Field(discriminator="type"),
]
"""What grades the answers of an evaluation: the rewards of a single answer."""


class WeightedReward(Request):
    """A component of the reward, which adds ``weight`` times its score."""

    name: str = Field(
        min_length=1,
        max_length=64,
        pattern=r"^[\w.-]+$",
        description="Name of the component in metrics and trajectories.",
    )
    weight: Number = Field(default=1.0, description="Weight of the component in the sum.")
    reward: Reward = Field(description="Reward whose score is the component's.")
    sources: Sources | None = Field(
        default=None,
        description="Sources of the rows that the component scores, by their field source or "
        "data_source; null: all rows.",
    )
