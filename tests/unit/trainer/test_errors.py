import pytest

from services.contracts.llamafactory.arguments import ArgumentRefused
from services.contracts.llamafactory.closed import ArgumentProblem
from services.datasets.record import UnreadableFile
from services.trainer.errors import Diverged, JobFailure, TrainingFailure, explain


@pytest.mark.parametrize(
    ("error", "phase", "code"),
    [
        (MemoryError(), "training", "out_of_memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "training", "out_of_memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "saving", "out_of_memory"),
        (OSError(28, "No space left on device"), "saving", "storage_full"),
        (
            RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"),
            "training",
            "storage_full",
        ),
        (
            Exception("Error while serializing: I/O error: No space left on device (os error 28)"),
            "saving",
            "storage_full",
        ),
        (OSError("no file named model.safetensors"), "loading_model", "model_load_failed"),
        (ValueError("Cannot specify `val_size`"), "configuring", "invalid_arguments"),
        (RuntimeError("Cannot find valid samples"), "tokenizing", "bad_data"),
        (UnreadableFile("content is missing", row=3), "preparing_data", "bad_data"),
        (Diverged("the loss is nan at step 3"), "training", "diverged"),
        (TrainingFailure("ended early"), "training", "training_failed"),
        (ZeroDivisionError("division by zero"), "training", "training_failed"),
        (
            ArgumentRefused("x", ArgumentProblem.UNKNOWN, "x is unknown"),
            "starting",
            "invalid_arguments",
        ),
    ],
)
def test_the_error_code_identifies_the_kind_of_failure(
    error: Exception, phase: str, code: str
) -> None:
    assert explain(error, phase).code == code


def test_the_message_is_the_first_line_of_the_root_cause() -> None:
    error = ValueError("\nbad value\nlong explanation")

    assert explain(error, "training") == JobFailure("training_failed", "ValueError: bad value")


def test_the_request_field_is_kept() -> None:
    error = ArgumentRefused("lora_rnk", ArgumentProblem.UNKNOWN, "lora_rnk is unknown")

    assert explain(error, "starting").param == "llamafactory.lora_rnk"
