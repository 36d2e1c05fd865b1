"""Where a model that is trained lies. Imported by the worker too: it needs no runtime."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator


class ModelSource(BaseModel):
    """The model to start from: a folder, or a hub repository at a revision."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    path: Path | None = None
    hub_id: str | None = None
    revision: str | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.hub_id is None):
            raise ValueError("give exactly one of path and hub_id")
        return self
