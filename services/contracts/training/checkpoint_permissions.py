"""Permissions of checkpoints, in OpenAI's format.

They are recorded for clients of that API. Here only API keys decide who may use a model.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from services.contracts.base import Request, Resource

MAX_PROJECTS = 100

ProjectId = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class Order(StrEnum):
    """The order of a list by time of creation."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class GrantPermissions(Request):
    """The body of POST /v1/fine_tuning/checkpoints/{checkpoint}/permissions."""

    project_ids: list[ProjectId] = Field(min_length=1, max_length=MAX_PROJECTS)


class CheckpointPermission(Resource):
    """A project that may use a checkpoint."""

    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    id: str
    created_at: int
    project_id: str
