"""The spec of an engine's merging child."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from services.core.artifacts import ModelSource


class AdapterMerge(BaseModel):
    """An adapter, the base that it belongs to, and the tokens that end a response."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    base: ModelSource
    adapter: Path
    stop_token_ids: list[int] = Field(default_factory=list)
