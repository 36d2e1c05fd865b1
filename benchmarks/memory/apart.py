"""Measurements in processes of their own, so that no case inherits memory of another."""

import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from benchmarks.memory import learner, offline
from benchmarks.memory.cases import Case
from benchmarks.memory.peak import Measured

CASE_SECONDS = 1200.0
PRELOADED = ("benchmarks.memory.apart", "llamafactory.train.tuner")


def measured_apart(case: Case, model: Path) -> Measured | str:
    """Measure a case; the end of its output if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        line = (case.model_dump_json(), str(model), folder)
        (Path(folder) / "log").touch()
        if _run(_measure, *line) != 0:
            return " ".join((Path(folder) / "log").read_text(errors="replace").split()[-40:])
        return Measured(**json.loads((Path(folder) / "measured.json").read_bytes()))


def card_bytes() -> int | None:
    """The memory of the GPU; None without one."""
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(0).total_memory)


def _run(target: Callable[..., None], *arguments: str) -> int | None:
    process = _process(target, arguments)
    process.start()
    process.join(CASE_SECONDS)
    process.kill()
    process.join()
    return process.exitcode


def _process(target: Callable[..., None], arguments: tuple[str, ...]) -> BaseProcess:
    """A process that is forked from a server with imported libraries. Some of these look for GPUs
    when they are imported, after which none can be used in a fork: there each imports its own."""
    if torch.cuda.is_available():
        return multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(list(PRELOADED))
    return processes.Process(target=target, args=arguments)


def _measure(content: str, model: str, folder: str) -> None:
    with (Path(folder) / "log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    case = Case.model_validate_json(content)
    measure = learner.measure if case.method == "grpo" else offline.measure
    found = measure(case, Path(model), Path(folder))
    (Path(folder) / "measured.json").write_text(json.dumps(asdict(found)))
