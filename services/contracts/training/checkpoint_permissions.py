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

    project_ids: list[ProjectId] = Field(
        min_length=1, max_length=MAX_PROJECTS, description="Ids of the projects to record."
    )


class CheckpointPermission(Resource):
    """A project that may use a checkpoint."""

    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    id: str = Field(description="Id of the permission.")
    created_at: int = Field(
        description="Time at which the permission was recorded, in Unix seconds."
    )
    project_id: str = Field(description="Id of the project.")
