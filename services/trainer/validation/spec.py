"""What a validation child is asked to do: the content of its ``validation.json``."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.fine_tuning import DataFormat
from services.datasets.source import SourceFile

SPEC = "validation.json"
DEFAULT_MAX_ERRORS = 20


class ValidationSpec(BaseModel):
    """The files of one fine-tuning job.

    Without a ``tokenizer_file`` (a tokenizer.json) lengths are counted in characters. At most
    ``max_errors`` are reported for each file.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    training_file: SourceFile
    validation_file: SourceFile | None = None
    data_format: DataFormat = DataFormat.AUTO
    max_seq_length: int = Field(ge=1)
    tokenizer_file: Path | None = None
    max_errors: int = Field(default=DEFAULT_MAX_ERRORS, ge=1, le=1000)
