"""Training failures as a code and a one-line message."""

from dataclasses import dataclass

from services.contracts.errors import TemperError
from services.contracts.failures import FailureCode

_MAX_MESSAGE = 500

_CODE_OF_PHASE = {
    "starting": "invalid_arguments",
    "configuring": "invalid_arguments",
    "preparing_data": "bad_data",
    "tokenizing": "bad_data",
    "downloading_model": "model_load_failed",
    "loading_model": "model_load_failed",
}
_STORAGE_FULL = ("no space left on device", "disk quota exceeded", "unexpected pos ")
"""The last is how torch.save reports a short write."""
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")


class TrainingFailure(TemperError):
    """A training that cannot continue, with its job's error code."""

    code = "training_failed"


class Diverged(TrainingFailure):
    """The loss or the gradient is not finite."""

    code = "diverged"


@dataclass(frozen=True)
class JobFailure:
    """A job's error."""

    code: str
    message: str
    param: str | None = None


def explain(error: BaseException, phase: str) -> JobFailure:
    """Explain an exception that ended a run during ``phase``."""
    if isinstance(error, TemperError):
        code = _CODES.get(error.code, error.code)
        return JobFailure(code, _one_line(error.message), error.param)
    text = str(error)
    if isinstance(error, MemoryError) or any(sign in text.lower() for sign in _OUT_OF_MEMORY):
        message = _one_line(text) or "the process ran out of memory"
        return JobFailure(FailureCode.OUT_OF_MEMORY, message)
    if any(sign in text.lower() for sign in _STORAGE_FULL):
        return JobFailure(FailureCode.STORAGE_FULL, f"the disk is full: {_one_line(text)}")
    line = _one_line(text)
    message = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return JobFailure(_CODE_OF_PHASE.get(phase, "training_failed"), message)


_CODES = {
    "invalid_llamafactory_argument": "invalid_arguments",
    "invalid_request": "invalid_arguments",
    "invalid_row": "bad_data",
    "invalid_training_file": "bad_data",
    "unreadable_file": "bad_data",
}


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[0][:_MAX_MESSAGE] if lines else ""
