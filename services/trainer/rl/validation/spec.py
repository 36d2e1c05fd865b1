"""What the child that validates prompts is asked to do: the content of its ``validation.json``."""

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.multi_turn import PromptType
from services.datasets.source import SourceFile
from services.trainer.rl.rows import MAX_ROWS

SPEC = "validation.json"
MAX_ERRORS = 20


class PromptsSpec(BaseModel):
    """Files of prompts, and what each row must have: a gold that rewards compare with, or an
    answer to learn from. ``validation_rows`` is the most that the validation file may have."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    training_file: SourceFile
    validation_file: SourceFile | None = None
    validation_rows: int = Field(default=MAX_ROWS, ge=1)
    prompt_type: PromptType
    needs_gold: bool
    needs_answer: bool
    max_errors: int = Field(default=MAX_ERRORS, ge=1, le=1000)
