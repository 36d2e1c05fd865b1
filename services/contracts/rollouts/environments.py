"""What an environment said of the rollout that it was opened for."""

from pydantic import Field

from services.contracts.base import Resource


class EnvironmentRecord(Resource):
    """The steps of a rollout in an environment, in order."""

    source: str = Field(description="Address of the environment.")
    rewards: list[float | None] = Field(
        default_factory=list,
        description="Reward of each step that the environment took; null where it gave none.",
    )
    done: bool = Field(default=False, description="Whether the environment ended the rollout.")
