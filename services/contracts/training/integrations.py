"""Trackers that a client requests with a job, as in OpenAI's fine-tuning API."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from services.contracts.base import Request

Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]


class WandbSettings(Request):
    """Where W&B shows the run; the operator's key and server are used."""

    project: Label = Field(description="W&B project of the run.")
    name: Label | None = Field(default=None, description="Name of the run in W&B; null: the job's.")
    entity: Label | None = Field(default=None, description="W&B team or user that owns the run.")
    tags: list[Annotated[Label, StringConstraints(max_length=64)]] | None = Field(
        default=None, max_length=50, description="Tags of the run in W&B."
    )


class Integration(Request):
    """One tracker."""

    type: Literal["wandb"] = Field(description="Kind of the integration.")
    wandb: WandbSettings = Field(description="Settings of the run in W&B.")
