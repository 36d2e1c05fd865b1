"""Trackers that a client requests with a job, as in OpenAI's fine-tuning API."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from services.contracts.base import Request

Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]


class WandbSettings(Request):
    """Where W&B shows the run; the operator's key and server are used."""

    project: Label
    name: Label | None = None
    entity: Label | None = None
    tags: list[Annotated[Label, StringConstraints(max_length=64)]] | None = Field(
        default=None, max_length=50
    )


class Integration(Request):
    """One tracker."""

    type: Literal["wandb"]
    wandb: WandbSettings
