"""The specification files of a batch's children: ``validation.json`` and ``spec.json``."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.batches.batches import BatchEndpoint
from services.core.artifacts import SourceFile
from services.datasets.validate import ValidationSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.evaluator.warm_serving import WarmServing

SPEC = "spec.json"


class BatchFileSpec(ValidationSpec):
    """The file to validate."""

    input_file_id: SourceFile
    endpoint: BatchEndpoint
    max_requests: int
    max_choices: int = Field(description="Of one request.")


class BatchSpec(BaseModel):
    """One batch: its requests, its model, and its deadline (seconds since the epoch)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    model: Annotated[LocalModel | RemoteEndpoint | WarmServing, Field(discriminator="type")]
    model_name: str = Field(description="The model as the requests name it.")
    requests: Path
    endpoint: BatchEndpoint
    expires_at: float
    max_concurrency: int = Field(ge=1, le=1024)
    timeout_seconds: float
