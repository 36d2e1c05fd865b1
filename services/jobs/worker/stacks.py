"""Where the processes of a tree are: the stacks of the Python ones, the states of the others."""

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from services.core.process.startup.sitecustomize import STACKS_SIGNAL
from services.core.process.supervised import tree_processes

ANSWER_SECONDS = 2.0
"""Longest wait for the stacks of one process."""
QUIET_SECONDS = 0.1
"""Stacks are complete when nothing was added for this long."""
MAX_PROCESSES = 64
MAX_STACK_BYTES = 64 << 10
SHOWN_FRAMES = 3

_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.+)$', re.M)


@dataclass(frozen=True)
class ProcessStack:
    """One process: its ID, its command, and its stacks as text, the innermost frame first."""

    pid: int
    command: str
    text: str

    @property
    def place(self) -> str:
        """The innermost frames of the thread that is likely the main one; empty without any."""
        _, _, current = self.text.partition("Current thread")
        frames = list(_FRAME.finditer(current.partition("\n\n")[0] or self.text))[:SHOWN_FRAMES]
        return " < ".join(
            f"{Path(frame['file']).name}:{frame['line']} {frame['function']}" for frame in frames
        )


def read_stacks(tree: str, file: Path) -> list[ProcessStack]:
    """Ask every process of a tree for its stacks, which it appends to ``file``."""
    found = sorted(tree_processes(tree))[:MAX_PROCESSES]
    return [ProcessStack(pid, _command(pid), _stack(pid, file)) for pid in found]


def _stack(pid: int, file: Path) -> str:
    """The stacks of a process; its state where it has no handler, whose default is its end."""
    if not _answers(pid):
        return _state(pid)
    begin = _size(file)
    with suppress(ProcessLookupError):
        os.kill(pid, STACKS_SIGNAL)
    give_up = time.monotonic() + ANSWER_SECONDS
    size, grown_at = begin, time.monotonic()
    while time.monotonic() < give_up:
        if (now := _size(file)) != size:
            size, grown_at = now, time.monotonic()
        elif size > begin and time.monotonic() - grown_at >= QUIET_SECONDS:
            break
        time.sleep(QUIET_SECONDS / 4)
    with open(file, "rb") as stacks:
        stacks.seek(begin)
        text = stacks.read(MAX_STACK_BYTES).decode(errors="replace")
    return text or _state(pid)


def _answers(pid: int) -> bool:
    """Whether a process handles the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith(b"SigCgt:")), b"0")
    return bool(int(caught, 16) >> (STACKS_SIGNAL - 1) & 1)


def _state(pid: int) -> str:
    """The state of a process and the kernel function that it waits in."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        state = next((line.split(maxsplit=1)[1] for line in lines if line.startswith("State:")), "")
        waits_in = Path(f"/proc/{pid}/wchan").read_text(errors="replace")
    except OSError:
        return "it has ended"
    return f"no Python stack; state {state}" + (f", in {waits_in}" if waits_in != "0" else "")


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace").strip()[:200]


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
