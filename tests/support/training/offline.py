"""Offline training within one process of the training runtime, on a tiny model."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from services.contracts.llamafactory.names import Stage
from services.core.process.reporter import METRICS, RESULT, Reporter
from services.trainer.offline.job_dir import Context
from services.trainer.offline.library.internals import MODEL_CLASSES, llamafactory_module
from services.trainer.offline.preparation import prepare
from services.trainer.offline.spec import SPEC, TrainingSpec
from services.trainer.offline.training import train
from tests.support.models.tiny_parts import build_model, build_tokenizer

TRAINERS = {
    Stage.SFT: ("train.sft.workflow", "CustomSeq2SeqTrainer"),
    Stage.DPO: ("train.dpo.trainer", "CustomDPOTrainer"),
    Stage.KTO: ("train.kto.workflow", "CustomKTOTrainer"),
    Stage.RM: ("train.rm.workflow", "PairwiseTrainer"),
    Stage.PT: ("train.pt.workflow", "CustomTrainer"),
}
CHILD = "services.trainer.offline"
SEAMS = ("load_tokenizer", "get_dataset", "load_model")


def make_base(folder: Path) -> Path:
    """Write a tiny model and its tokenizer into a folder."""
    tokenizer = build_tokenizer()
    build_model(tokenizer, seed=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@contextmanager
def restored_library() -> Iterator[None]:
    """Undo afterwards what training changes in LLaMA-Factory's modules."""
    places = [TRAINERS[stage] for stage in TRAINERS]
    places += [(f"train.{stage.value}.workflow", name) for stage in TRAINERS for name in SEAMS]
    places += [("model.loader", name) for name in ("AutoTokenizer", *MODEL_CLASSES)]
    places += [("data.loader", "PretrainDatasetProcessor")]
    places += [("train.pt.workflow", "DataCollatorForLanguageModeling")]
    kept = [(place, getattr(llamafactory_module(place[0]), place[1])) for place in places]
    template = llamafactory_module("data.template").Template
    fix = template.fix_jinja_template
    yield
    template.fix_jinja_template = fix
    for (module, name), value in kept:
        setattr(llamafactory_module(module), name, value)


def rows_of(stage: Stage, count: int = 8) -> list[dict[str, Any]]:
    """Rows that the stage learns from."""
    return [_ROWS[stage](number) for number in range(count)]


def _demonstration(number: int) -> dict[str, Any]:
    question = {"role": "user", "content": f"Say {number}{' please' * (number % 3)}."}
    return {"messages": [question, {"role": "assistant", "content": f"{number}!"}]}


def _pair(number: int) -> dict[str, Any]:
    return {
        "input": {"messages": [{"role": "user", "content": f"Say {number}."}]},
        "preferred_output": [{"role": "assistant", "content": f"{number}!"}],
        "non_preferred_output": [{"role": "assistant", "content": "No, not at all."}],
    }


def _judged(number: int) -> dict[str, Any]:
    answer = f"{number}!" if number % 2 else "No, not at all."
    messages = [
        {"role": "user", "content": f"Say {number}."},
        {"role": "assistant", "content": answer},
    ]
    return {"messages": messages, "label": bool(number % 2)}


def _text(number: int) -> dict[str, Any]:
    return {"text": f"Once upon a time there were {number} numbers. " * 3}


_ROWS = {
    Stage.SFT: _demonstration,
    Stage.DPO: _pair,
    Stage.RM: _pair,
    Stage.KTO: _judged,
    Stage.PT: _text,
}


class OfflineJob:
    """A job folder whose training runs in this process."""

    def __init__(self, folder: Path, base: Path, stage: Stage, **changes: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        rows = changes.pop("rows", None) or rows_of(stage)
        data = folder / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        content = {
            "job_id": "ftjob-test",
            "stage": stage.value,
            "model": {"path": str(base)},
            "training_data": {"path": str(data)},
            "method": "full",
            "n_epochs": 1.0,
            "batch_size": 2,
            "learning_rate": 1e-2,
            "max_seq_len": 64,
            "seed": 3,
            **changes,
        }
        self.spec = TrainingSpec.model_validate_json(json.dumps(content))
        self.context = Context(folder, Reporter(folder), lambda phase: None)

    def run(self) -> dict[str, Any]:
        """Train to the end and return the result."""
        assert self.spec.model.path is not None
        reference = self.spec.reference.model.path if self.spec.reference else None
        train(
            self.spec,
            prepare(self.spec, self.spec.model.path, reference, self.context),
            self.context,
        )
        result: dict[str, Any] = json.loads((self.folder / RESULT).read_bytes())
        return result

    def run_in_processes(self, count: int) -> dict[str, Any]:
        """Train in processes of torch's launcher, on CPUs, and return the result."""
        (self.folder / SPEC).write_text(self.spec.model_dump_json())
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        done = subprocess.run(
            [sys.executable, *launcher, "--module", CHILD, str(self.folder)],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert (self.folder / RESULT).exists(), done.stderr[-3000:]
        result: dict[str, Any] = json.loads((self.folder / RESULT).read_bytes())
        return result

    def losses(self) -> dict[int, float]:
        """The training losses by step."""
        return {each["step"]: each["loss"] for each in self.metrics() if "loss" in each}

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every log."""
        lines = (self.folder / METRICS).read_text().splitlines()
        return [json.loads(line) for line in lines]

    def trainer(self, monkeypatch: Any) -> Any:
        """The trainer as the stage builds it, before its first step."""
        built: list[Any] = []

        class Built(Exception):
            """The trainer was about to begin."""

        def stop(trainer: Any, **_: Any) -> None:
            built.append(trainer)
            raise Built

        with monkeypatch.context() as patched:
            patched.setattr("transformers.Trainer.train", stop)
            with suppress(Built):
                self.run()
        torch.manual_seed(0)
        return built[0]
