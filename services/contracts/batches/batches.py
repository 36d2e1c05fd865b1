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
    endpoint: BatchEndpoint = Field(
        description="Endpoint of the API that every request of the batch is sent to."
    )
    completion_window: Literal["24h"] = Field(
        description="Time from the creation of the batch after which unanswered requests expire."
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
        default=600,
        ge=1,
        le=86_400,
        description="Maximum seconds to wait for one answer, per attempt.",
    )
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server of a registered model."
    )


class RequestCounts(Resource):
    """Requests of a batch. While it runs, ``completed`` counts all that have ended."""

    total: int = Field(default=0, description="Number of requests in the batch.")
    completed: int = Field(
        default=0,
        description="Requests that were answered; all that have ended, until the batch has a "
        "result.",
    )
    failed: int = Field(
        default=0,
        description="Requests that ended without a successful answer; 0 until the batch has a "
        "result.",
    )


class InputTokensDetails(Resource):
    """Input tokens found in the server's prefix cache."""

    cached_tokens: int = Field(
        default=0, description="Input tokens found in the server's prefix cache."
    )


class OutputTokensDetails(Resource):
    """Output tokens that were reasoning, if the server reports them."""

    reasoning_tokens: int = Field(
        default=0,
        description="Output tokens that were reasoning; 0 unless the server reports them.",
    )


class BatchUsage(Resource):
    """Token totals of the responses, as the server counted them."""

    input_tokens: int = Field(default=0, description="Input tokens of all answered requests.")
    output_tokens: int = Field(default=0, description="Output tokens of all answered requests.")
    total_tokens: int = Field(
        default=0, description="Input and output tokens of all answered requests."
    )
    input_tokens_details: InputTokensDetails = Field(
        default_factory=InputTokensDetails, description="Breakdown of the input tokens."
    )
    output_tokens_details: OutputTokensDetails = Field(
        default_factory=OutputTokensDetails, description="Breakdown of the output tokens."
    )


class BatchError(Resource):
    """Why a batch failed."""

    code: str = Field(description="Stable code of the error, for programs.")
    message: str = Field(description="Description of the error in one line.")
    param: str | None = Field(default=None, description="Request field at fault; null: none.")
    line: int | None = Field(
        default=None,
        description="Line of the input file at fault, counted from 1; null: not one line.",
    )


class BatchErrors(Resource):
    """The errors of a batch: one for each of the first invalid lines, or that of the batch."""

    object: Literal["list"] = "list"
    data: list[BatchError] = Field(
        description="Errors of the first invalid lines, or the one error of the batch."
    )


class Batch(Resource):
    """A batch job in OpenAI's shape."""

    id: str = Field(description="Id of the batch.")
    object: Literal["batch"] = "batch"
    endpoint: BatchEndpoint = Field(
        description="Endpoint of the API that every request of the batch is sent to."
    )
    model: str | None = Field(
        default=None,
        description="Model that answered the requests; null until the batch has a result.",
    )
    errors: BatchErrors | None = Field(
        default=None, description="Errors that made the batch fail; null: it has not failed."
    )
    input_file_id: str = Field(description="File of the requests.")
    completion_window: str = Field(
        description="Time from the creation of the batch after which unanswered requests expire."
    )
    status: BatchStatus = Field(description="Status of the batch, in OpenAI's terms.")
    output_file_id: str | None = Field(
        default=None,
        description="File of the answers in the order of their arrival; null until the batch has "
        "ended, or without any.",
    )
    error_file_id: str | None = Field(
        default=None,
        description="File of the requests without a successful answer; null until the batch has "
        "ended, or without any.",
    )
    created_at: int = Field(description="Time of the submission, in Unix seconds.")
    in_progress_at: int | None = Field(
        default=None,
        description="Time at which a worker first ran the batch, in Unix seconds; null before.",
    )
    expires_at: int = Field(
        description="Time at which unanswered requests expire, in Unix seconds."
    )
    finalizing_at: int | None = Field(
        default=None,
        description="Time at which the last request ended, in Unix seconds; null without a result.",
    )
    completed_at: int | None = Field(
        default=None,
        description="Time at which the batch completed, in Unix seconds; null unless it did.",
    )
    failed_at: int | None = Field(
        default=None,
        description="Time at which the batch failed, in Unix seconds; null unless it did.",
    )
    expired_at: int | None = Field(
        default=None,
        description="Time at which the batch expired, in Unix seconds; null unless it did.",
    )
    cancelling_at: int | None = Field(
        default=None,
        description="Time at which cancelling was requested, in Unix seconds; null unless it was.",
    )
    cancelled_at: int | None = Field(
        default=None,
        description="Time at which the batch was cancelled, in Unix seconds; null unless it was.",
    )
    request_counts: RequestCounts = Field(description="Number of requests by outcome.")
    usage: BatchUsage | None = Field(
        default=None,
        description="Token totals of the responses; null until the batch has a result.",
    )
    metadata: dict[str, str] | None = Field(
        default=None, description="Labels given in the request, by which batches can be listed."
    )


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
