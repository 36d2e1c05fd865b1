"""Why jobs fail: the codes that every kind shares, and what to do about each."""

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
    PROCESS_KILLED = "process_killed"
    PROCESS_CRASHED = "process_crashed"
    WATCHDOG_KILLED = "watchdog_killed"
    WORKER_LOST = "worker_lost"


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
        "Lower the learning rate, add warm-up or clip gradients (max_grad_norm), and look at the "
        "rows of the step named."
    ),
    FailureCode.BAD_DATA: "Correct the row, upload the file again, and submit a new job.",
    FailureCode.INVALID_TRAINING_FILE: (
        "Correct the rows, upload the file again, and submit a new job."
    ),
    FailureCode.MODEL_LOAD_FAILED: (
        "See that config.json, the tokenizer and all safetensors files are in the model's folder "
        "or repository, then retry the job."
    ),
    FailureCode.DEADLINE_EXCEEDED: (
        "Retry the job: it resumes from its last checkpoint, with the same time again."
    ),
    FailureCode.PROCESS_KILLED: (
        "Somebody or something on the host killed the process; retry the job once that is settled."
    ),
    FailureCode.PROCESS_CRASHED: "The last lines of the log are with the event of the failure.",
    FailureCode.WATCHDOG_KILLED: (
        "Somebody or something on the host killed the watchdog; retry the job once that is settled."
    ),
    FailureCode.WORKER_LOST: "See that the worker's host runs, then retry the job.",
}


def hint_of(code: str) -> str | None:
    """What a user can do about a failure, in one line; None for a code that has no hint."""
    return _HINTS.get(code)
