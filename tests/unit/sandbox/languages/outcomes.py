"""Outcomes as a pool would give them."""

from collections.abc import Mapping
from dataclasses import replace

from services.sandbox.execution import ExitReason, Outcome

SUCCESS = Outcome(
    exit_reason=ExitReason.EXITED,
    return_code=0,
    stdout=b"",
    stderr=b"",
    stdout_cut=False,
    stderr_cut=False,
    wall_seconds=1.0,
    cpu_seconds=1.0,
    peak_memory_bytes=1 << 20,
    files={"main": b"program"},
)
FAILURE = replace(SUCCESS, return_code=1, stderr=b"no", files={})
TIME_OUT = replace(SUCCESS, exit_reason=ExitReason.TIMED_OUT, return_code=None, files={})


def success(files: Mapping[str, bytes]) -> Outcome:
    """A compilation that left these files."""
    return replace(SUCCESS, files=files)
