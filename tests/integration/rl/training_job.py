"""A folder in which the child of an online training works, killed or not."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from services.core.artifacts import ModelSource, SourceFile
from services.core.process.reporter import METRICS, REPORTS, RESULT
from services.core.process.runtimes import Accelerator, child_environment
from services.trainer.rl.spec import SPEC, OnlineTask, RemoteTeacher, RuntimeSpec
from tests.support.runtimes import installed_runtime
from tests.support.waiting import wait_for

Source = TypeVar("Source")
MODULE = "services.trainer.rl"


class OnlineJob:
    """One training of the model in a folder, on sums that it cannot do."""

    def __init__(
        self,
        folder: Path,
        model: Path | ModelSource,
        method: str,
        *,
        teacher: Path | ModelSource | RemoteTeacher | None = None,
        environment: Mapping[str, str] | None = None,
        held_out: int = 0,
        launcher: Sequence[str] = (),
        learner: Path | None = None,
        **settings: Any,
    ) -> None:
        """``held_out`` is the number of sums to evaluate on, ``launcher`` a command that executes
        the coordinator, ``learner`` the interpreter of the learner if it is another."""
        self.folder = folder
        self._launcher = launcher
        self._environment = environment or {}
        folder.mkdir()
        prompts = _sums(folder / "prompts.jsonl", range(30))
        validation = _sums(folder / "held-out.jsonl", range(30, 30 + held_out))
        training, vllm = installed_runtime("training"), installed_runtime("vllm")
        spec = OnlineTask.model_validate(
            {
                "job_id": "ftjob-1",
                "model": _source(model),
                "method": {"type": method, method: settings},
                "teacher": _source(teacher),
                "prompts": prompts,
                "validation": validation if held_out else None,
                "training": RuntimeSpec(
                    python=learner or training.python, version=training.version
                ),
                "vllm": RuntimeSpec(
                    python=vllm.python,
                    version=vllm.version,
                    on_cpu=vllm.accelerator is Accelerator.CPU,
                ),
                "seed": 1,
            }
        )
        (folder / SPEC).write_text(spec.model_dump_json())

    def run(self, seconds: float = 300.0) -> dict[str, Any]:
        """Work to the end; return the result."""
        result = self._ended(seconds)
        assert result["status"] == "succeeded", (result, self._log())
        return result

    def run_until_checkpoint(self, step: int, seconds: float = 300.0) -> None:
        """Run until a checkpoint of ``step`` or later is reported, then kill the job."""
        process = self._start()
        try:
            wait_for(lambda: self._has_checkpoint(step, process), "a checkpoint", seconds)
        finally:
            self._kill(process)

    def fail(self, seconds: float = 300.0) -> dict[str, Any]:
        """Work to the end, which is a failure; return its error."""
        result = self._ended(seconds)
        assert result["status"] == "failed", result
        error: dict[str, Any] = result["error"]
        return error

    def run_to_outage(self, seconds: float = 300.0) -> dict[str, Any]:
        """Work until the job pauses by itself; return the outage."""
        result = self._ended(seconds)
        assert result["status"] == "paused", (result, self._log())
        outage: dict[str, Any] = result["outage"]
        return outage

    def reports(self, kind: str) -> list[dict[str, Any]]:
        """All reports of a type, whole lines only."""
        return [report for report in _lines(self.folder / REPORTS) if report["type"] == kind]

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of each step."""
        return _lines(self.folder / METRICS)

    def _ended(self, seconds: float) -> dict[str, Any]:
        process = self._start()
        try:
            wait_for(lambda: process.poll() is not None, "the training has ended", seconds)
        finally:
            self._kill(process)
        result: dict[str, Any] = json.loads((self.folder / RESULT).read_text())
        return result

    def _has_checkpoint(self, step: int, process: "subprocess.Popen[bytes]") -> bool:
        assert process.poll() is None, self._log()
        return any(report["step"] >= step for report in self.reports("checkpoint"))

    def _start(self) -> "subprocess.Popen[bytes]":
        with (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(
                [*self._launcher, sys.executable, "-m", MODULE, str(self.folder)],
                cwd=self.folder,
                env=child_environment(self._environment),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill its whole process group, and wait until none of it is left."""
        while _signal(process.pid, signal.SIGKILL):
            process.poll()
            time.sleep(0.05)
        process.wait()

    def _log(self) -> str:
        return (self.folder / "log.txt").read_text()[-3000:]


def _sums(path: Path, numbers: range) -> SourceFile:
    rows = ({"question": f"{n}+{n}?", "gold": str(2 * n)} for n in numbers)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return SourceFile(path=path, filename=path.name)


def _source(given: Source) -> Source | ModelSource:
    return ModelSource(path=given) if isinstance(given, Path) else given


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1] if line]
