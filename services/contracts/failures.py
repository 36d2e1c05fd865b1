"""Failures of jobs, and of the infrastructure, told apart from what the policy itself did wrong.

A sample that the infrastructure lost is left out: it says nothing about the policy, so it enters no
advantage, loss, score or mean (docs/failures.md).
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from services.contracts.base import Number, Request, Resource


class FailureCode(StrEnum):
    """A cause of failure. Kinds of job add codes of their own, which are plain strings."""

    OUT_OF_MEMORY = "out_of_memory"  # of a GPU or of the host
    INSUFFICIENT_MEMORY = "insufficient_memory"  # by estimate, before anything was started
    STORAGE_FULL = "storage_full"
    DIVERGED = "diverged"  # the loss or the gradient is not finite
    BAD_DATA = "bad_data"  # a row cannot be trained on
    INVALID_TRAINING_FILE = "invalid_training_file"
    MODEL_LOAD_FAILED = "model_load_failed"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    HUNG = "hung"  # no progress for too long
    PROCESS_KILLED = "process_killed"
    PROCESS_CRASHED = "process_crashed"
    WATCHDOG_KILLED = "watchdog_killed"
    WORKER_LOST = "worker_lost"
    INFRASTRUCTURE_UNAVAILABLE = "infrastructure_unavailable"  # tools, rewards or endpoints, a day


_HINTS: dict[str, str] = {
    FailureCode.OUT_OF_MEMORY: (
        "Use shorter sequences, a smaller batch per device, gradient checkpointing or LoRA; "
        "then submit a new job."
    ),
    FailureCode.INSUFFICIENT_MEMORY: (
        "Use LoRA or QLoRA, shorter sequences, gradient checkpointing, or sharding over more GPUs."
    ),
    FailureCode.STORAGE_FULL: (
        "Delete finished jobs or set a retention, then retry the job: it resumes from its last "
        "complete checkpoint."
    ),
    FailureCode.DIVERGED: (
        "Lower the learning rate, add warm-up or clip gradients (max_grad_norm), and inspect the "
        "rows of that step."
    ),
    FailureCode.BAD_DATA: "Correct the row, upload the file again, and submit a new job.",
    FailureCode.INVALID_TRAINING_FILE: (
        "Correct the rows, upload the file again, and submit a new job."
    ),
    FailureCode.MODEL_LOAD_FAILED: (
        "Check that config.json, the tokenizer and all safetensors files are in the model's folder "
        "or repository, then retry the job."
    ),
    FailureCode.DEADLINE_EXCEEDED: (
        "Retry the job: it resumes from its last checkpoint, with the same time limit."
    ),
    FailureCode.HUNG: (
        "The job's log has the stacks of all its processes at the time; find the cause, or raise "
        "TEMPER_STALL_SECONDS if its steps are so long, then retry the job."
    ),
    FailureCode.PROCESS_KILLED: (
        "The process was killed from outside; find the cause on the host, then retry the job."
    ),
    FailureCode.PROCESS_CRASHED: "The failure event has the last lines of the log.",
    FailureCode.WATCHDOG_KILLED: (
        "The watchdog was killed from outside; find the cause on the host, then retry the job."
    ),
    FailureCode.INFRASTRUCTURE_UNAVAILABLE: (
        "Repair the service that the message names, then retry the job: it resumes from its last "
        "checkpoint."
    ),
    "not_on_policy": (
        "Train without exact_on_policy: importance weights correct for what engine and learner "
        "differ by."
    ),
    FailureCode.WORKER_LOST: "Check that the worker's host is running, then retry the job.",
}


def hint_of(code: str) -> str | None:
    """What a user can do about a failure, in one line; None for a code that has no hint."""
    return _HINTS.get(code)


class InfrastructureCause(StrEnum):
    """What went wrong in a tool, a reward or an engine, if it was not the policy's own doing."""

    REFUSED = "refused"  # no connection could be made
    RESET = "reset"  # the connection ended before the answer was complete
    TIMED_OUT = "timed_out"  # no answer within the service's time limit
    OVERLOADED = "overloaded"  # 429, 503 or 504 after all retries, or a full queue
    SERVER_ERROR = "server_error"  # another HTTP status from 500 on
    MISCONFIGURED = "misconfigured"  # every request would be refused: 401, 403, 404, ...
    UNREADABLE = "unreadable"  # an answer that does not follow the service's contract
    SERVICE_ERROR = "service_error"  # the service says that it failed
    NOT_STARTED = "not_started"  # a process could not be started
    KILLED = "killed"  # a process ended before it answered
    NO_PROCESSOR_TIME = "no_processor_time"  # a time limit passed while the program had to wait
    INTERNAL_ERROR = "internal_error"  # a bug in Temper

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed a moment later."""
        return self not in {InfrastructureCause.MISCONFIGURED, InfrastructureCause.INTERNAL_ERROR}

    @property
    def is_outage(self) -> bool:
        """Whether waiting for somebody to repair the service makes sense: not for a bug."""
        return self is not InfrastructureCause.INTERNAL_ERROR


class LeftOut(Resource):
    """Why a sample counts nowhere: what the infrastructure failed at."""

    source: str = Field(
        description="Source of the failure: the tool's name, reward:NAME, grader, engine or temper."
    )
    cause: InfrastructureCause = Field(description="Cause of the loss.")
    message: str = Field(description="Description of the failure in one line.")


PAUSE_SHARE = 0.5
"""Of 64 rollouts that began one after the other; a job that loses this many waits."""

Share = Annotated[Number, Field(gt=0.0, le=1.0)]


class InfrastructureLimits(Request):
    """How much a training may lose to the infrastructure before it waits."""

    skip_share: Share = Field(
        default=0.25,
        description="Share of left-out rollouts above which a step is not trained on but repeated "
        "with new prompts.",
    )
    pause_share: Share = Field(
        default=PAUSE_SHARE,
        description="Share of left-out rollouts, among 64 that began one after the other, from "
        "which the job is paused and tried again later.",
    )


class OutageReport(Resource):
    """Why a job was paused, and when it is tried again."""

    message: str
    seconds: float = Field(ge=0.0, le=3600.0, description="Seconds until the next attempt.")
