"""The spec of the merging child: ``spec.json``."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from services.core.artifacts import ModelSource

SPEC = "spec.json"


class MergeSpec(BaseModel):
    """What to merge.

    With ``value_head``, the folder of a reward model's checkpoint, the result is a classifier;
    ``template`` and ``arguments`` are then those of its training. With ``gguf``, the name of a file
    in the model's folder, it is that file's weights and tokenizer.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    model: ModelSource
    adapter: Path | None = None
    value_head: Path | None = None
    gguf: str | None = None
    stop_token_ids: list[int] = Field(default_factory=list)
    template: str | None = None
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
