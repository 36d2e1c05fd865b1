"""A training job for tests: its directory and the child that works in it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.core.process.reporter import REPORTS, RESULT
from services.core.process.runtimes import REPOSITORY
from services.trainer.offline.spec import SPEC, TrainingSpec

DEADLINE = 300.0
CHILD = "services.trainer.offline"


def runtime_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"}


@dataclass
class Job:
    """A job directory, and the child that works in it."""

    python: str
    directory: Path
    spec: dict[str, Any]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write(self, rows: list[dict[str, Any]], **changes: Any) -> None:
        data = self.directory / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.spec |= {"training_data": {"path": str(data)}, **changes}
        spec = TrainingSpec.model_validate_json(json.dumps(self.spec))
        (self.directory / SPEC).write_text(spec.model_dump_json())

    def start(self, *launcher: str) -> "subprocess.Popen[bytes]":
        with open(self.directory / "log.txt", "ab") as log:
            process = subprocess.Popen(
                [self.python, *(launcher or ("-m",)), CHILD, str(self.directory)],
                cwd=self.directory,
                env=runtime_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, *launcher: str) -> dict[str, Any]:
        self.start(*launcher).wait(DEADLINE)
        assert (self.directory / RESULT).exists(), self.log_tail()
        result: dict[str, Any] = json.loads((self.directory / RESULT).read_bytes())
        return result

    def reports(self, kind: str) -> list[dict[str, Any]]:
        path = self.directory / REPORTS
        text = path.read_text() if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may be incomplete
        return [report for report in map(json.loads, lines) if report["type"] == kind]

    def log_tail(self) -> str:
        return (self.directory / "log.txt").read_text()[-2000:]

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert self.processes[-1].poll() is None, self.log_tail()
            assert time.monotonic() < deadline, self.log_tail()
            time.sleep(0.05)

    def kill(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    def phases(self) -> list[str]:
        return [report["phase"] for report in self.reports("phase")]
