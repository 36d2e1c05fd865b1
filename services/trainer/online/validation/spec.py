"""What the child that validates prompts is asked to do: the content of its ``validation.json``."""

from pydantic import BaseModel, ConfigDict, Field

from services.common.contracts.multi_turn import PromptType
from services.common.records.source import SourceFile

SPEC = "validation.json"
MAX_ERRORS = 20


class PromptsSpec(BaseModel):
    """A file of prompts, and what each row must have: a gold that rewards compare with, or an
    answer to learn from."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    file: SourceFile
    prompt_type: PromptType
    needs_gold: bool
    needs_answer: bool
    max_errors: int = Field(default=MAX_ERRORS, ge=1, le=1000)
