"""Batches, as in the OpenAI API: a file of requests to one endpoint, and a file of responses."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AnyHttpUrl, Field, StrictInt, StringConstraints

from services.contracts.base import JsonObject, Resource
from services.contracts.data.files import ExpiresAfter
from services.contracts.engine import VllmOptions
from services.contracts.jobs import JobRequest


class BatchEndpoint(StrEnum):
    """The endpoint of a batch; every line of its file names the same one."""

    CHAT_COMPLETIONS = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"


class BatchStatus(StrEnum):
    """OpenAI's statuses of a batch. A queued or paused one is ``in_progress``."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


OUTPUT_FILE = "output.jsonl"
ERROR_FILE = "errors.jsonl"
"""In the folder of a batch."""

WINDOW_SECONDS = 24 * 3600
"""OpenAI's only completion window, counted from the creation of a batch."""

CustomId = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class CreateBatch(JobRequest):
    """The body of POST /v1/batches; the last four fields are Temper's."""

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ("input_file_id",)

    input_file_id: str = Field(
        min_length=1,
        max_length=200,
        description="JSONL of {custom_id, method, url, body}; every body names the same model.",
        examples=["file-abc123"],
    )
    endpoint: BatchEndpoint
    completion_window: Literal["24h"] = Field(
        description="Time within which OpenAI would complete the batch; has no effect here."
    )
    output_expires_after: ExpiresAfter | None = Field(
        default=None, description="Expiry of the output and error files; null: they are kept."
    )
    base_url: AnyHttpUrl | None = Field(
        default=None,
        description="An OpenAI-compatible server, up to and including /v1, that the operator "
        "allows; null: the model is a registered one.",
    )
    max_concurrency: StrictInt = Field(
        default=64, ge=1, le=1024, description="Maximum concurrent requests."
    )
    timeout_seconds: StrictInt = Field(
        default=600, ge=1, le=86_400, description="Maximum wait for one answer, per attempt."
    )
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server of a registered model."
    )


class RequestCounts(Resource):
    """Requests of a batch. While it runs, ``completed`` counts all that have ended."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class InputTokensDetails(Resource):
    """Input tokens found in the server's prefix cache."""

    cached_tokens: int = 0


class OutputTokensDetails(Resource):
    """Output tokens that were reasoning, if the server reports them."""

    reasoning_tokens: int = 0


class BatchUsage(Resource):
    """Token totals of the responses, as the server counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = Field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = Field(default_factory=OutputTokensDetails)


class BatchError(Resource):
    """Why a batch failed."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class BatchErrors(Resource):
    """The errors of a batch: one for each of the first invalid lines, or that of the batch."""

    object: Literal["list"] = "list"
    data: list[BatchError]


class Batch(Resource):
    """A batch job in OpenAI's shape."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: BatchEndpoint
    model: str | None = None
    errors: BatchErrors | None = None
    input_file_id: str
    completion_window: str
    status: BatchStatus
    output_file_id: str | None = Field(
        default=None,
        description="File of the answers in the order of their arrival; null until the batch has "
        "ended.",
    )
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts
    usage: BatchUsage | None = None
    metadata: dict[str, str] | None = None


class BatchResponse(Resource):
    """The server's response to one request."""

    status_code: int
    request_id: str
    body: JsonObject


class RequestError(Resource):
    """Why there is no response: ``batch_expired``, ``request_timeout`` or ``request_failed``."""

    code: str
    message: str


class BatchOutput(Resource):
    """One line of an output or error file."""

    id: str
    custom_id: str
    response: BatchResponse | None = None
    error: RequestError | None = None


class BatchResult(Resource):
    """The stored result of a finished batch."""

    model: str
    counts: RequestCounts
    usage: BatchUsage
    expired: bool = False
