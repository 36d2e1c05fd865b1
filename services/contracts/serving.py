"""Servings: jobs that keep the engine of a model running, for requests through the gateway."""

from datetime import date
from typing import Literal

from pydantic import Field, StrictBool, StrictInt

from services.contracts.base import Resource
from services.contracts.engine import VllmOptions
from services.contracts.jobs import JobRequest, JobState


class DeployModel(JobRequest):
    """The body of POST /v1/models/{id}/deploy."""

    keep_warm: StrictBool = Field(
        default=False,
        description="Whether to keep serving without requests, and while other jobs wait for "
        "its devices.",
    )
    idle_seconds: StrictInt | None = Field(
        default=None,
        ge=1,
        le=604_800,
        description="Seconds without a request after which the serving stops; null: the operator's "
        "setting.",
    )
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server."
    )


class CreateServing(DeployModel):
    """What a serving loads. Adapters share the engine of their base, unless they need merging."""

    model: str = Field(
        description="Model that the engine loads: the weights, or an adapter that is served merged."
    )
    adapter: str | None = Field(
        default=None, description="Requested adapter, which the engine must hold; null: none."
    )


class ServingResult(Resource):
    """How a serving ended.

    ``outgrown``: an adapter needs a higher rank than the engine was started for; the request for
    it starts a successor with the same options.
    """

    requests: int = Field(description="Number of answered requests.")
    reason: str = Field(description="Reason why the serving ended.")
    outgrown: bool = Field(
        default=False,
        description="Whether an adapter needs a higher rank than the engine was started for; a "
        "request for it starts a successor.",
    )


class Serving(JobState):
    """A serving, as /v1/servings lists it."""

    object: Literal["serving"] = "serving"
    model: str = Field(description="Model that the engine loads; its adapters share it.")
    keep_warm: bool = Field(
        description="Whether to keep serving without requests, and while other jobs wait for "
        "its devices."
    )
    result: ServingResult | None = Field(
        default=None,
        description="Outcome of a serving that has ended by itself; null for others, such as one "
        "that was stopped.",
    )


class UsageOfDay(Resource):
    """Usage of one model by a key on one day (UTC): answered requests and their tokens."""

    object: Literal["usage"] = "usage"
    day: date = Field(description="Day of the usage, in UTC.")
    model: str = Field(description="Name of the model.")
    requests: int = Field(description="Number of answered requests.")
    prompt_tokens: int = Field(description="Number of prompt tokens.")
    completion_tokens: int = Field(description="Number of completion tokens.")


class Usage(Resource):
    """The usage of the request's key, newest day first."""

    object: Literal["list"] = "list"
    data: list[UsageOfDay] = Field(description="Usage by day and model, newest day first.")


class Undeployed(Resource):
    """The servings that were asked to stop."""

    object: Literal["model.undeployed"] = "model.undeployed"
    model: str = Field(description="Name of the model.")
    servings: list[str] = Field(description="Ids of the servings that were asked to stop.")
