"""Merging an adapter into its base, or a reward model's checkpoint into a classifier."""

from typing import Literal

from pydantic import Field, StrictInt

from services.contracts.base import Metadata, Request
from services.contracts.jobs import JobRequest, JobState
from services.contracts.models.registered import Suffix


class MergeModel(Request):
    """The body of POST /v1/models/{id}/merge. A merge runs on the CPU."""

    suffix: Suffix = Field(default="merged", description="Part of the merged model's name.")
    priority: StrictInt = Field(default=0, ge=-100, le=100, description="Higher runs first.")
    metadata: Metadata | None = None


class CreateMerge(JobRequest):
    """The request of a merge job: the adapter or checkpoint, and the suffix of the result."""

    model: str = Field(description="The adapter or checkpoint to merge.")
    suffix: Suffix = Field(default="merged", description="Part of the merged model's name.")


class Merge(JobState):
    """A job that merges a model."""

    object: Literal["model.merge"] = "model.merge"
    model: str
    merged_model: str | None = Field(default=None, description="The registered result.")
