"""Failure codes shared by all kinds of job, with hints for users."""

from enum import StrEnum


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
