"""Trying a grader out: OpenAI's POST /v1/fine_tuning/alpha/graders/validate and .../run."""

from pydantic import Field

from services.contracts.base import JsonObject, Request, Resource
from services.contracts.rewards.rewards import Reward


class ValidateGrader(Request):
    """A grader or a reward to validate."""

    grader: Reward


class GraderValidation(Resource):
    """The grader as parsed."""

    grader: Reward


class RunGrader(Request):
    """A grader or a reward, the text to score, and the row that it answers."""

    grader: Reward
    model_sample: str = Field(max_length=1_000_000, description="Answer of the model to grade.")
    item: JsonObject = Field(
        default_factory=dict,
        description="Row of the file; rewards compare with its gold or answer.",
    )


class GraderErrors(Resource):
    """Failures of a run; with any of them the reward is 0."""

    formula_parse_error: bool = False
    sample_parse_error: bool = False
    sample_parse_error_details: str | None = None
    truncated_observation_error: bool = False
    unresponsive_reward_error: bool = False
    invalid_variable_error: bool = False
    invalid_variable_error_details: str | None = None
    other_error: bool = False
    other_error_details: str | None = None
    python_grader_server_error: bool = False
    python_grader_server_error_type: str | None = None
    python_grader_runtime_error: bool = False
    python_grader_runtime_error_details: str | None = None
    model_grader_server_error: bool = False
    model_grader_server_error_details: str | None = None
    model_grader_refusal_error: bool = False
    model_grader_parse_error: bool = False
    model_grader_parse_error_details: str | None = None


class GraderMetadata(Resource):
    """Details of a run; ``execution_time`` is in seconds."""

    name: str
    type: str
    errors: GraderErrors
    execution_time: float
    scores: dict[str, float]
    token_usage: int | None = None
    sampled_model_name: str | None = None


class GraderRun(Resource):
    """The result of a run; ``sub_rewards`` are the scores that a multi grader combines."""

    reward: float
    metadata: GraderMetadata
    sub_rewards: dict[str, float]
    model_grader_token_usage_per_model: dict[str, int]
