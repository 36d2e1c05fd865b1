"""A tracker for tests: writes what it is told to a file, and misbehaves as its project says."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker

TARGET = "tests.support.jobs.fake_tracker:FakeTracker"
FILE = "tracked.jsonl"


class FakeTracker(Tracker):
    """Appends one JSON list per call to ``tracked.jsonl`` in the job's folder."""

    def start(self, run: TrackedRun, config: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        """Begin, unless the run's project names a fault of the start."""
        self._file = Path(run.folder) / FILE
        self._fault = run.project
        self._write("start", run.name, dict(saved))
        self.saved = {"starts": saved.get("starts", 0) + 1}
        if self._fault == "unreachable":
            raise ConnectionError(f"no answer with key {os.environ.get('FAKE_API_KEY')}")
        if self._fault == "hang":
            self._hang()

    def log(self, step: int, metrics: Mapping[str, float], time: float) -> None:
        """Record a step."""
        self._write("log", step, dict(metrics))
        if self._fault == "die":
            os.kill(os.getpid(), 9)

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """Record samples."""
        self._write("traces", step, [item.response for item in items])

    def finish(self, state: End) -> None:
        """Record the end."""
        self._write("finish", state)
        if self._fault == "hang at the end":
            self._hang()

    def _write(self, *call: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(call) + "\n")

    def _hang(self) -> None:
        while True:
            time.sleep(60)


def calls(folder: Path, name: str | None = None) -> list[list[Any]]:
    """What the tracker of a job was told, or only the calls of that name."""
    file = folder / FILE
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return [call for call in found if name in (None, call[0])]
