"""A stored file as a child is told of it."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class SourceFile(BaseModel):
    """Where the content lies, by a name of the server's choice, and what the client calls it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: Path
    filename: str = Field(min_length=1)
