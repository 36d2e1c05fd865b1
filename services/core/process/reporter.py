"""How a job's child process and its worker talk: by files in the job's folder.

A child appends JSON lines to ``reports.jsonl`` and finishes by writing ``result.json`` atomically.
The worker follows the first and trusts only the second: a child without a result has crashed,
regardless of its exit code. In the other direction, the worker's signals are files that reach
every process of the child, including those that a launcher started on its behalf, at a moment of
their choosing.

Only the standard library is imported here, because every runtime imports this module.
"""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPORTS = "reports.jsonl"
METRICS = "metrics.jsonl"
RESULT = "result.json"
TICK = ".tick"
PAUSED = "paused"
"""The status in the result of a child that paused."""
NEEDS_DEVICE = "needs_device"
"""In the result of a validation: whether the work needs a device; true if missing. As the code of a
failure: the job was begun without a device, and needs one to go on."""


class Reporter:
    """Writes the reports of a child; may be recreated on the same directory after a kill.

    Values that JSON does not have never crash a child: NaN and infinity become null, lone
    surrogates become question marks.
    """

    def __init__(self, job_dir: Path) -> None:
        self.job_dir = job_dir
        self._ticked_at = -math.inf
        for name in (REPORTS, METRICS):
            _end_last_line(job_dir / name)

    def phase(self, name: str) -> None:
        """Report that a part of the work begins, for example ``loading_model``."""
        self._report({"type": "phase", "phase": name})

    def message(self, text: str, level: str = "info", **data: Any) -> None:
        """Report a message to the user; ``level`` is ``info``, ``warn`` or ``error``."""
        self._report({"type": "message", "level": level, "message": text, "data": data})

    def progress(self, step: int, total_steps: int, eta_seconds: float | None = None) -> None:
        """Report progress in steps; the unit depends on the kind of job."""
        self._report(
            {
                "type": "progress",
                "step": step,
                "total_steps": total_steps,
                "eta_seconds": eta_seconds,
            }
        )

    def download(
        self,
        done: int,
        total: int,
        bytes_per_second: float | None = None,
        eta_seconds: float | None = None,
    ) -> None:
        """Report how many bytes of a model are here, of how many; until the next phase."""
        self._report(
            {
                "type": "download",
                "bytes": done,
                "total_bytes": total,
                "bytes_per_second": bytes_per_second,
                "eta_seconds": eta_seconds,
            }
        )

    def metrics(self, step: int, **values: float) -> None:
        """Report the metrics of a step; also appended to ``metrics.jsonl``."""
        self._append(METRICS, {"step": step, "time": time.time(), **values})
        self._report({"type": "metrics", "step": step, "metrics": values})

    def tick(self) -> None:
        """Show that a long step goes on, such as an evaluation within a training; without it, the
        worker takes a long silence for a hang. Costs nothing: one touch of a file a second."""
        now = time.monotonic()
        if now - self._ticked_at >= 1.0:
            self._ticked_at = now
            (self.job_dir / TICK).touch()

    def checkpoint(self, step: int, path: str, kept: Sequence[int]) -> None:
        """Report a complete checkpoint; ``path`` is relative to the job directory, ``kept`` the
        steps of all checkpoints that are there now."""
        self._report({"type": "checkpoint", "step": step, "path": path, "kept": list(kept)})

    def finish(self, **result: Any) -> None:
        """Write the result of a successful child, with the fields of its kind of job."""
        self._write_result({"status": "succeeded", **result})

    def fail(
        self,
        code: str,
        message: str,
        param: str | None = None,
        *,
        retryable: bool = False,
        rows: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Write the failure: a machine-readable code, one line for the user, the field at fault.

        ``retryable``: a process that the work depends on died, and another attempt may succeed.
        ``rows``: row and message of each unusable row of the file at fault.
        """
        error: dict[str, Any] = {"code": code, "message": message, "param": param}
        error["retryable"] = retryable
        if rows:
            error["rows"] = list(rows)
        self._write_result({"status": "failed", "error": error})

    def paused(self, outage: Mapping[str, Any] | None = None) -> None:
        """Write the result of a child that has saved a checkpoint for a pause.

        ``outage``: ``message`` says why the child paused by itself, and ``seconds`` when the worker
        is to start it again.
        """
        self._write_result({"status": PAUSED, **({} if outage is None else {"outage": outage})})

    def _report(self, record: dict[str, Any]) -> None:
        self._append(REPORTS, {"time": time.time(), **record})

    def _append(self, name: str, record: dict[str, Any]) -> None:
        with open(self.job_dir / name, "ab") as file:
            file.write(_encode(record) + b"\n")

    def _write_result(self, result: dict[str, Any]) -> None:
        target = self.job_dir / RESULT
        partial = target.with_suffix(".partial")
        with open(partial, "wb") as file:
            file.write(_encode(result))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)


def succeeded_before(job_dir: Path) -> bool:
    """Whether an earlier attempt succeeded; the result of a failed one is removed."""
    result = job_dir / RESULT
    try:
        status = json.loads(result.read_bytes())["status"]
    except FileNotFoundError:
        return False
    if status != "succeeded":
        result.unlink(missing_ok=True)
    return bool(status == "succeeded")


def _encode(record: dict[str, Any]) -> bytes:
    text = json.dumps(_finite(record), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="replace")


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _end_last_line(path: Path) -> None:
    """Terminate a partial line of a killed attempt, which would corrupt the next one."""
    if not path.exists() or not path.stat().st_size:
        return
    with open(path, "rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


PAUSE = "pause.request"
OTHERS_WAIT = "others.wait"
"""Signals of the worker to the child."""


def request_pause_of(job_dir: Path) -> None:
    """Ask the child of a job to save a checkpoint and exit."""
    (job_dir / PAUSE).touch()


def withdraw_pause(job_dir: Path) -> None:
    """Remove the request of an earlier attempt."""
    (job_dir / PAUSE).unlink(missing_ok=True)


def pause_requested(job_dir: Path) -> bool:
    """Whether the child of a job was asked to pause."""
    return (job_dir / PAUSE).exists()


def tell_that_others_wait(job_dir: Path, waiting: bool) -> None:
    """Tell the child whether other jobs wait for its devices; an idle one may exit for them."""
    if waiting:
        (job_dir / OTHERS_WAIT).touch()
    else:
        (job_dir / OTHERS_WAIT).unlink(missing_ok=True)


def others_wait(job_dir: Path) -> bool:
    """Whether other jobs wait for the devices of a job's child."""
    return (job_dir / OTHERS_WAIT).exists()
