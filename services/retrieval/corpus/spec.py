"""What a validation child is asked to do: the content of its ``validation.json``."""

from pydantic import BaseModel, ConfigDict

from services.datasets.source import SourceFile

SPEC = "validation.json"


class ValidationSpec(BaseModel):
    """The corpus of an indexing job, and the language of its words."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    file: SourceFile
    language: str | None
