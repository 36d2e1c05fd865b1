"""A training of one of LLaMA-Factory's stages as a job runs it, measured in this process."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from transformers import Trainer, TrainerCallback

from benchmarks.memory.cases import Case
from benchmarks.memory.peak import MEASURED_STEPS, Measured, Meter, timed_steps
from services.core.process.reporter import Reporter
from services.trainer.offline import training
from services.trainer.offline.arguments import build_arguments
from services.trainer.offline.job_dir import Context
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.preparation import prepare
from services.trainer.offline.spec import TrainingSpec

ACCUMULATED = 2
LETTERS = "0123456789 "


def measure(case: Case, model: Path, folder: Path) -> Measured:
    """Train a few steps of full-length rows."""
    steps = MEASURED_STEPS + timed_steps()
    rows = folder / "rows.jsonl"
    count = case.rows * ACCUMULATED * steps
    rows.write_text("".join(json.dumps(_row(case, number)) + "\n" for number in range(count)))
    spec = TrainingSpec.model_validate_json(
        json.dumps(
            {
                "job_id": "ftjob-measured",
                "stage": case.method,
                "model": {"path": str(model)},
                "training_data": {"path": str(rows)},
                "method": case.training_type,
                "lora": {"rank": 16},
                "n_epochs": 1.0,
                "learning_rate": 1e-5,
                "max_seq_len": case.length,
                "arguments": case.arguments(),
            }
        )
    )
    context = Context(folder, Reporter(folder), lambda _: None)
    preparation = prepare(spec, model, _reference(case, model), context)
    meter = Meter()
    with _computing_as_on_a_gpu(case), _calling(meter):
        training.train(spec, preparation, context)
    return meter.measured(ACCUMULATED * case.micro_batch_tokens)


def _reference(case: Case, model: Path) -> Path | None:
    return model if case.training_type == "full" and case.method in {"dpo", "kto"} else None


def _row(case: Case, number: int) -> dict[str, Any]:
    """A row whose answers are longer than the limit."""
    draw = random.Random(number)

    def answer() -> str:
        return "".join(draw.choices(LETTERS, k=3 * case.length))

    question = {"role": "user", "content": str(number)}
    given, other = ({"role": "assistant", "content": answer()} for _ in range(2))
    match case.method:
        case "sft":
            return {"messages": [question, given]}
        case "kto":
            return {"messages": [question, given], "label": bool(number % 2)}
        case _:
            return {
                "input": {"messages": [question]},
                "preferred_output": [given],
                "non_preferred_output": [other],
            }


@contextmanager
def _computing_as_on_a_gpu(case: Case) -> Iterator[None]:
    """Without a GPU a job computes in float32 and drops what needs one; here the precision of the
    case is kept, in which a CPU holds the same tensors."""
    build = build_arguments
    named = {"mixed": {"bf16": True}, "pure_bf16": {"pure_bf16": True}, "float32": {"bf16": False}}
    parser = llamafactory_module("hparams.parser")

    def built(*given: Any) -> dict[str, Any]:
        return {**build(*given), **named[case.precision]}

    with (
        patch.object(training, "build_arguments", built),
        patch.object(training, "emulates", lambda _: case.precision == "float32"),
        patch.object(parser, "is_torch_bf16_gpu_available", lambda: True),
    ):
        yield


@contextmanager
def _calling(meter: Meter) -> Iterator[None]:
    """Within it, every trainer calls the meter."""
    train = Trainer.train

    class Calling(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            meter.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            meter.end_of_step()

    def measured(trainer: Any, **settings: Any) -> Any:
        trainer.add_callback(Calling())
        return train(trainer, **settings)

    with patch.object(Trainer, "train", measured):
        yield
