"""The work of a stub job: a few reports, and the end that its script names.

``quiet`` runs without a report until it is ended. ``unsaved`` saves its steps for a pause only.
``forever`` also starts a daemon that leaves the
process group and ignores SIGTERM, as a careless library might. Every attempt counts from the step
that the one before it reached.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from services.core.process.reporter import Reporter, pause_requested

STEPS = 5


def main(job_dir: Path, script: str) -> int:
    reporter = Reporter(job_dir)
    reporter.phase("training")
    position = job_dir / "position.json"
    step = json.loads(position.read_text())["step"] if position.exists() else 0
    (job_dir / "pid").write_text(str(os.getpid()))
    while script == "quiet":
        time.sleep(0.05)
    if script == "forever":
        _start_daemon(job_dir)
    endless = script in ("forever", "unsaved")
    while step < STEPS or endless:
        step += 1
        pausing = pause_requested(job_dir)
        saves = pausing or script != "unsaved"
        if saves:
            # First: the next attempt must not report a step again that this one was killed after.
            _replace(position, json.dumps({"step": step}))
        reporter.metrics(step, loss=1.0 / step)
        reporter.progress(step, 1000 if endless else STEPS, 1.0)
        if saves:
            reporter.checkpoint(step, f"output/checkpoint-{step}", range(1, step + 1))
        time.sleep(0.05)
        if pausing:
            reporter.paused()
            return 0
    if script == "fail":
        print("a line of the log")
        reporter.fail("bad_data", "row 3: nothing there", "training_file")
        return 1
    if script == "crash":
        print("a line of the log", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    reporter.finish(tokens=step * 10)
    return 0


def _replace(file: Path, text: str) -> None:
    """Write a file atomically: the next attempt reads it after a kill."""
    partial = file.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(file)


def _start_daemon(job_dir: Path) -> None:
    if os.fork():
        return
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (job_dir / "daemon").write_text(str(os.getpid()))
    while True:
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
