"""The process of one tracker: ``python -m services.jobs.tracking.child FOLDER MODULE:CLASS``.

Only the standard library is imported here, because the tracking runtime imports this module; the
tracker's module imports its package.
"""

import fcntl
import importlib
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from services.jobs.tracking.follower import DeliveredPosition, FolderFollower
from services.jobs.tracking.tracker import End, TrackedRun, Tracker

SPEC = "run.json"
POSITION = "position.json"
FAILURE = "failure.txt"
END = "end.txt"
"""In the tracker's folder: what is tracked, what was delivered, why it failed, and how the run
ended."""
POLL_SECONDS = 0.5
LOCK_SECONDS = 60.0
NICENESS = 10


def main(folder: Path, target: str) -> int:
    """Follow the job until the worker writes how it ended, or TERM interrupts the run."""
    os.nice(NICENESS)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        with open(folder / "lock", "w") as lock:
            _wait_for(lock.fileno())
            _follow(folder, _tracker(target), stop)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        (folder / FAILURE).write_text(redacted(reason)[:1000])
        sys.stderr.write(redacted(traceback.format_exc()))
        return 1
    return 0


def redacted(text: str) -> str:
    """The text without the values of the environment that may be secret: keys, tokens, passwords,
    and the credentials in URLs."""
    for name, value in os.environ.items():
        if re.search("KEY|TOKEN|SECRET|PASSW", name) and len(value) > 3:
            text = text.replace(value, f"[{name}]")
    return re.sub(r"(\w+://)[^\s/@]+@", r"\1", text)


def _tracker(target: str) -> Tracker:
    module, _, name = target.partition(":")
    found = getattr(importlib.import_module(module), name)()
    if not isinstance(found, Tracker):
        raise TypeError(f"{target} is not a tracker")
    return found


def _follow(folder: Path, tracker: Tracker, stop: threading.Event) -> None:
    spec: dict[str, Any] = json.loads((folder / SPEC).read_bytes())
    run = TrackedRun(**{**spec["run"], "tags": tuple(spec["run"]["tags"])})
    position = DeliveredPosition.load(folder / POSITION)
    follower = FolderFollower(Path(run.folder), position)
    tracker.start(run, spec["config"], position.saved)
    _save(folder, tracker, position)
    end = None
    while end is None:
        end = _end(folder)  # before the last reports are read
        while not stop.is_set() and _deliver(tracker, follower):
            _save(folder, tracker, position)
        if stop.is_set():
            end = End.INTERRUPTED
        elif end is None:
            stop.wait(POLL_SECONDS)
    tracker.finish(end)
    _save(folder, tracker, position)


def _deliver(tracker: Tracker, follower: FolderFollower) -> bool:
    """Deliver a batch; false when there is nothing new."""
    batch = follower.read()
    if batch is None:
        return False
    for each in batch:
        tracker.log(each.step, each.metrics, each.time)
    if batch and (items := follower.traces()):
        tracker.traces(batch[-1].step, items)
    return True


def _save(folder: Path, tracker: Tracker, position: DeliveredPosition) -> None:
    position.saved = dict(tracker.saved)
    position.save(folder / POSITION)


def _end(folder: Path) -> End | None:
    try:
        return End((folder / END).read_text())
    except FileNotFoundError:
        return None


def _wait_for(lock: int) -> None:
    """Wait for the process of an earlier attempt, which delivers its last batch."""
    give_up = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
