"""The bound of choices, of processes that pass requests on to models."""

from pydantic import Field

from services.core.settings import ProcessSettings


class ChoiceSettings(ProcessSettings):
    """How much one request may ask of an engine that others use, too."""

    max_choices: int = Field(
        default=128,
        ge=1,
        le=16_384,
        description="Choices of one request to a model, n times its prompts; with more the gateway "
        "answers 400, and a batch file is invalid.",
    )
