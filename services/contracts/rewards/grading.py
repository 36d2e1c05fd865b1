"""Trying a grader out: OpenAI's POST /v1/fine_tuning/alpha/graders/validate and .../run."""

from pydantic import Field

from services.contracts.base import JsonObject, Request, Resource
from services.contracts.rewards.rewards import Reward


class ValidateGrader(Request):
    """A grader or a reward to validate."""

    grader: Reward = Field(description="Grader to check.")


class GraderValidation(Resource):
    """The grader as parsed."""

    grader: Reward = Field(description="Grader with its defaults filled in.")


class RunGrader(Request):
    """A grader or a reward, the text to score, and the row that it answers."""

    grader: Reward = Field(description="Grader or reward to run.")
    model_sample: str = Field(max_length=1_000_000, description="Answer of the model to grade.")
    item: JsonObject = Field(
        default_factory=dict,
        description="Row of the file; rewards compare with its gold or answer.",
    )


class GraderErrors(Resource):
    """Failures of a run; with any of them the reward is 0."""

    formula_parse_error: bool = Field(
        default=False,
        description="Always false: a multi grader whose formula cannot be read is refused.",
    )
    sample_parse_error: bool = Field(
        default=False, description="Whether a template reads the sample as JSON, which it is not."
    )
    sample_parse_error_details: str | None = Field(
        default=None, description="Details of a sample that is not JSON; null: none."
    )
    truncated_observation_error: bool = Field(
        default=False, description="Always false: samples are not truncated."
    )
    unresponsive_reward_error: bool = Field(
        default=False, description="Always false: a grader that takes too long fails the request."
    )
    invalid_variable_error: bool = Field(
        default=False, description="Whether a template names an unknown variable."
    )
    invalid_variable_error_details: str | None = Field(
        default=None, description="Details of an unknown variable; null: none."
    )
    other_error: bool = Field(
        default=False, description="Whether grading failed for another reason."
    )
    other_error_details: str | None = Field(
        default=None, description="Details of another failure; null: none."
    )
    python_grader_server_error: bool = Field(
        default=False, description="Whether the sandbox failed a Python grader."
    )
    python_grader_server_error_type: str | None = Field(
        default=None, description="Message of the sandbox's failure; null: none."
    )
    python_grader_runtime_error: bool = Field(
        default=False, description="Whether the source of a Python grader raised."
    )
    python_grader_runtime_error_details: str | None = Field(
        default=None, description="Details of the exception; null: none."
    )
    model_grader_server_error: bool = Field(
        default=False, description="Whether the grading model's server failed."
    )
    model_grader_server_error_details: str | None = Field(
        default=None, description="Details of the server's failure; null: none."
    )
    model_grader_refusal_error: bool = Field(
        default=False, description="Always false: a refusal is an answer that cannot be read."
    )
    model_grader_parse_error: bool = Field(
        default=False, description="Whether the grading model's answer cannot be read."
    )
    model_grader_parse_error_details: str | None = Field(
        default=None, description="Details of the unreadable answer; null: none."
    )


class GraderMetadata(Resource):
    """Details of a run; ``execution_time`` is in seconds."""

    name: str = Field(description="Name of the grader.")
    type: str = Field(description="Type of the grader.")
    errors: GraderErrors = Field(
        description="Failures of the run; with any of them the reward is 0."
    )
    execution_time: float = Field(description="Duration of the run, in seconds.")
    scores: dict[str, float] = Field(description="Scores by the name of their grader.")
    token_usage: int | None = Field(
        default=None,
        description="Number of tokens of grading models; null without one, or none was reported.",
    )
    sampled_model_name: str | None = Field(
        default=None,
        description="Name of the first grading model; null without one that reported tokens.",
    )


class GraderRun(Resource):
    """The result of a run; ``sub_rewards`` are the scores that a multi grader combines."""

    reward: float = Field(description="Score of the sample.")
    metadata: GraderMetadata = Field(description="Details of the run.")
    sub_rewards: dict[str, float] = Field(
        description="Scores that a multi grader combines, by name."
    )
    model_grader_token_usage_per_model: dict[str, int] = Field(
        description="Number of tokens by grading model."
    )
