"""What a validation child is asked to do: the content of its ``validation.json``."""

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.evaluations import Grader
from services.datasets.source import SourceFile

SPEC = "validation.json"
DEFAULT_MAX_ERRORS = 20


class ValidationSpec(BaseModel):
    """The file of one evaluation, and the grader that must be able to use its golds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    file: SourceFile
    grader: Grader
    max_errors: int = Field(default=DEFAULT_MAX_ERRORS, ge=1, le=1000)
