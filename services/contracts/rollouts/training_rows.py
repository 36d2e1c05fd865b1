"""Rows of a training file, made from the trajectories of a job."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, StrictInt

from services.contracts.base import Number, Request, Resource
from services.contracts.data.files import File

MAX_TRAJECTORIES = 10_000
MAX_REASONS = 20


class RowLayout(StrEnum):
    """What the rows teach."""

    SUPERVISED = "supervised"  # conversations to imitate
    PREFERENCE = "preference"  # the best against the worst sample of a prompt
    REINFORCEMENT = "reinforcement"  # prompts, with what their samples earned


class CreateTrainingRows(Request):
    """Which trajectories become rows, and of which layout."""

    layout: RowLayout = Field(
        description="supervised: a row for each conversation. preference: a row for each prompt, "
        "its best against its worst sample where they part. reinforcement: a row for each prompt, "
        "with the mean reward of its samples."
    )
    min_reward: Number | None = Field(
        default=None, description="Lowest reward of a trajectory that is used."
    )
    max_reward: Number | None = Field(
        default=None, description="Highest reward of a trajectory that is used."
    )
    step: StrictInt | None = Field(
        default=None, ge=1, le=2**31 - 1, description="Training step that learned from them."
    )
    limit: StrictInt = Field(
        default=1000,
        ge=1,
        le=MAX_TRAJECTORIES,
        description="Trajectories that are read at most, the earliest first.",
    )


class RowsLeftOut(Resource):
    """Trajectories, or prompts in a layout of one row a prompt, that gave no row."""

    reason: str
    count: int
    first: str = Field(description="The first of them: a trajectory's id, or prompt and row.")


class TrainingRows(Resource):
    """A file of rows. Each row names its origin in the column ``provenance``."""

    object: Literal["training_rows"] = "training_rows"
    file: File = Field(description="File that a fine-tuning can name, deleted as any other.")
    layout: RowLayout
    rows: int
    trajectories: int = Field(description="Trajectories that were read.")
    has_more: bool = Field(description="Whether more than ``limit`` of them match.")
    left_out: list[RowsLeftOut] = Field(
        default_factory=list,
        description="Trajectories or prompts that gave no row, by reason, the most frequent first.",
    )
