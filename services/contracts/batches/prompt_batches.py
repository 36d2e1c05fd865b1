"""Prompt batches: a template over the records of a file, answered by endpoints or an own engine.

``temper batch`` writes a `PromptBatch` into the rows folder of its output and becomes the process
that answers it.
"""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from services.contracts.base import JsonObject
from services.contracts.batches.offline_engine import OfflineOptions
from services.contracts.validation import AtField

MODULE = "services.evaluator.prompts"
REQUESTED = "requested.json"
"""The `PromptBatch` that a command asks for, in the rows folder."""
REQUEST = "request.json"
"""The `PromptBatch` that the rows belong to."""

SYSTEM_TEXT = "You are a helpful assistant."
TEMPERATURE = 0.8
MAX_TOKENS = 8000
TIMEOUT_SECONDS = 120.0
PATIENCE_SECONDS = 600.0
CONCURRENCY = 64

FORMATS = (".json", ".jsonl", ".csv", ".parquet", ".xlsx")
"""Suffixes of files of records and of outputs."""


def rows_folder(output: Path) -> Path:
    """Where the durable rows of an output are kept: beside it."""
    return output.with_name(f"{output.name}.rows")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PromptEndpoint(_Strict):
    """An OpenAI-compatible server and one of its models.

    The share of requests that goes to it grows with ``weight``. ``api_key_variable`` names the
    environment variable with its key.
    """

    base_url: str = Field(
        pattern=r"^https?://[^/\s]+", description="Base URL, up to and including /v1."
    )
    model: str = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    api_key_variable: str | None = None


class OwnEngine(_Strict):
    """A model that vLLM runs for the batch, without a server: a folder, or a name on the hub.

    ``devices`` are GPUs by index or UUID; without any, those with most free memory are taken.
    """

    model: str = Field(min_length=1)
    runtimes: Path = Field(description="Folder of the installed runtimes.")
    devices: list[str] = []
    options: OfflineOptions = Field(default_factory=OfflineOptions)


class Prompting(_Strict):
    """How a record becomes messages; see docs/prompt-batches.md."""

    template: Path = Field(description="Prompt template: YAML with system_prompt or messages.")
    variables: dict[str, str] = Field(
        default_factory=dict,
        description="Fields of a record, by the template variable that names them.",
    )
    system_text: str = Field(default=SYSTEM_TEXT, description="Text of the system message.")
    template_as_system: bool = Field(
        default=False, description="Whether to send the template as the system message."
    )


class Parsing(_Strict):
    """How a prediction is parsed from an answer: JSON after the reasoning, and a path in it."""

    path: str = Field(
        default="label", description="Dotted path of the prediction in the JSON of an answer."
    )
    reasoning_ends: list[str] | None = Field(
        default=None, description="Tags that end the reasoning of an answer."
    )


class PromptBatch(_Strict):
    """Everything that one ``temper batch`` does."""

    records: Path = Field(
        description="Input file of the records: .json, .jsonl, .csv, .parquet or .xlsx."
    )
    delimiter: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description="Delimiter of a CSV file of records; null: detected.",
    )
    output: Path = Field(description="Output file: .json, .jsonl, .csv, .parquet or .xlsx.")
    prompting: Prompting
    endpoints: list[PromptEndpoint] = []
    engine: OwnEngine | None = Field(
        default=None, description="Engine that answers in place of endpoints."
    )
    body: JsonObject = Field(description="Fields of every request beside model and messages.")
    parsing: Parsing | None = None
    concurrency: int = Field(
        default=CONCURRENCY, ge=1, le=4096, description="Maximum requests in flight."
    )
    timeout_seconds: float = Field(
        default=TIMEOUT_SECONDS, gt=0, description="Maximum seconds of one attempt."
    )
    patience_seconds: float = Field(
        default=PATIENCE_SECONDS,
        gt=0,
        description="Seconds without a usable endpoint after which the batch gives up.",
    )

    @model_validator(mode="after")
    def _one_answerer(self) -> Self:
        if bool(self.endpoints) == (self.engine is not None):
            raise AtField("endpoints", "give either endpoints or an engine")
        if self.engine is not None:
            self.engine.options.check_drafts(self.body.get("min_p"), ("body", "min_p"))
        return self
