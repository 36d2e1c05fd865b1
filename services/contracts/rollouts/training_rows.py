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
        description="Layout of the rows. supervised: one for each conversation. preference: one "
        "for each prompt, its best against its worst sample where they part. "
        "reinforcement: one for each prompt, with the mean reward of its samples."
    )
    min_reward: Number | None = Field(
        default=None, description="Lowest reward of the trajectories that are used."
    )
    max_reward: Number | None = Field(
        default=None, description="Highest reward of the trajectories that are used."
    )
    step: StrictInt | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="Training step that learned from the trajectories.",
    )
    limit: StrictInt = Field(
        default=1000,
        ge=1,
        le=MAX_TRAJECTORIES,
        description="Maximum trajectories that are read, the earliest first.",
    )


class RowsLeftOut(Resource):
    """Trajectories, or prompts in a layout of one row a prompt, that gave no row."""

    reason: str = Field(description="Reason why no row was made.")
    count: int = Field(description="Number of trajectories or prompts with this reason.")
    first: str = Field(
        description="First case: a trajectory's id, or the row of a prompt, as `prompt 3`."
    )


class TrainingRows(Resource):
    """A file of rows. Each row names its origin in the column ``provenance``."""

    object: Literal["training_rows"] = "training_rows"
    file: File = Field(description="File that a fine-tune can name, deleted as any other.")
    layout: RowLayout = Field(
        description="Layout of the rows: supervised, preference or reinforcement."
    )
    rows: int = Field(description="Number of rows in the file.")
    trajectories: int = Field(description="Number of trajectories that were read.")
    has_more: bool = Field(description="Whether more than `limit` trajectories match.")
    left_out: list[RowsLeftOut] = Field(
        default_factory=list,
        description="Reasons why trajectories or prompts gave no row, with their counts, the "
        "most frequent first.",
    )
