"""The owner of one child's process tree.

A worker starts it; it starts the child in a new session and ensures that no process of the child
outlives the worker's right to run it. It stops the whole tree when the pipe from the worker closes
(the worker died), when the lease expires (the worker hangs or lost its database), on request, when
its processes together exceed their memory limit, and after the child itself has exited.

As a child subreaper it inherits every orphan of the tree, including double-forked daemons. It is a
plain script on the standard library, which starts fast.

Protocol: commands are lines on standard input, ``note <file>``, ``renew <deadline>`` and ``end``;
answers are JSON lines on standard output: ``{"pid": n}`` or ``{"error": "why"}`` at the start,
``{"returncode": n, "expired": bool, "exhausted": who}`` at the end, where who ran out of memory is
``tree``, ``machine`` or null. Deadlines are absolute, so that a delayed message (the worker or this
process was suspended) grants no more time than the lease in the database.

The note of the tree, a file that the worker has created, is removed once no process of the tree is
left. A command names it, because arguments of a worker of another release could be taken for it.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.05
CHECK_SECONDS = 1.0
"""How often the deadline is checked: select timeouts pause while a machine is suspended. The memory
of the tree is measured as often."""
FIRST_TO_KILL = "1000"
"""``oom_score_adj`` of the tree: when the machine runs out of memory, the kernel kills a process of
the job, and neither the worker nor another service."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Watchdog:
    """Runs one command until it exits or has to be stopped."""

    def __init__(
        self, command: list[str], log: str, deadline: float, grace: float, limits: "MemoryLimits"
    ) -> None:
        self.deadline = deadline
        self.grace = grace
        self.limits = limits
        self.expired = False
        self.exhausted: str | None = None
        self.kernel_kills = _kernel_kills()
        self.terminated = False
        self.note: Path | None = None
        self.commands = b""
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        with open(log, "ab", buffering=0) as log_file:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: _prepare(limits),  # noqa: PLW1509 - this process has one thread
            )

    def run(self) -> int:
        """Wait until the child exits or has to be stopped; then end its whole tree."""
        wakeup, wakeup_writer = os.pipe()
        os.set_blocking(wakeup_writer, False)
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        ended = False
        while not ended and self.child.poll() is None:
            timeout = max(0.0, self.deadline - _clock())
            readable, _, _ = select.select([0, wakeup], [], [], min(timeout, CHECK_SECONDS))
            if wakeup in readable:
                os.read(wakeup, 4096)
            ended = self._read_commands() if 0 in readable else False
            self.expired = not ended and (self.terminated or _clock() >= self.deadline)
            if self.limits.tree and _memory_held(self.limits.tree) > self.limits.tree:
                self.exhausted = "tree"
                self.grace = 0.0  # it would keep growing
            ended = ended or self.expired or self.exhausted is not None
            self._reap_orphans()
        self._end_tree()
        returncode = self.child.wait()
        if returncode == -signal.SIGKILL and not ended and _kernel_kills() > self.kernel_kills:
            self.exhausted = "machine"
        return returncode

    def _terminate(self) -> None:
        """Handle TERM: a renewal that is read afterwards must not undo it."""
        self.terminated = True

    def _read_commands(self) -> bool:
        """Execute commands of the worker; true when the tree must be stopped."""
        received = os.read(0, 4096)
        if not received:
            return True
        *lines, self.commands = (self.commands + received).split(b"\n")
        for line in lines:
            words = line.split()
            if words[:1] == [b"renew"]:
                self.deadline = float(words[1])
            elif words[:1] == [b"note"]:
                self.note = Path(os.fsdecode(line.partition(b" ")[2]))
            elif words == [b"end"]:
                return True
        return False

    def _end_tree(self) -> None:
        """Send TERM to every descendant, wait the grace period, then kill until none is left."""
        if descendants(os.getpid()):
            _signal_all(signal.SIGTERM)
        deadline = time.monotonic() + self.grace
        while descendants(os.getpid()) and time.monotonic() < deadline:
            self._reap_orphans()
            time.sleep(POLL_SECONDS)
        while descendants(os.getpid()):
            _signal_all(signal.SIGKILL)
            self._reap_orphans()
            time.sleep(POLL_SECONDS)

    def _reap_orphans(self) -> None:
        """Reap exited descendants, except the child itself: Popen reads its exit code."""
        self.child.poll()
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            if info.si_pid == self.child.pid:
                self.child.poll()
            else:
                os.waitpid(info.si_pid, os.WNOHANG)


def _clock() -> float:
    """The clock of deadlines; it runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class MemoryLimits(NamedTuple):
    """Bytes of memory, 0 without a limit: of each process, and of all processes together."""

    process: int
    tree: int


def _prepare(limits: MemoryLimits) -> None:
    """Set up the child: it dies with the watchdog, and is the OOM killer's first choice."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if limits.process:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.process, limits.process))
    with contextlib.suppress(OSError):  # some container runtimes have no such file
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_KILL)


def _memory_held(enough: int) -> int:
    """Bytes of memory of the tree that the kernel cannot take back: anonymous and shared memory.

    Pages that processes share count once if the sum that counts them repeatedly, which costs
    little, is above ``enough``.
    """
    found = descendants(os.getpid())
    held = sum(_status_bytes(pid, "status", (b"RssAnon:", b"RssShmem:")) for pid in found)
    if held <= enough:
        return held
    shares = (b"Pss_Anon:", b"Pss_Shmem:")
    return sum(_status_bytes(pid, "smaps_rollup", shares) for pid in found)


def _status_bytes(pid: int, name: str, fields: tuple[bytes, ...]) -> int:
    try:
        lines = Path(f"/proc/{pid}/{name}").read_bytes().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(fields))


def _kernel_kills() -> int:
    """How many processes this machine's OOM killer has killed."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def descendants(root: int) -> set[int]:
    """All live descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may be any bytes; fields follow the last parenthesis.
            state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != b"Z":
            parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    for pid in parents:
        line = []
        ancestor: int | None = pid
        while ancestor is not None and ancestor not in (root, *found):
            line.append(ancestor)
            ancestor = parents.get(ancestor)
        if ancestor is not None:
            found.update(line)
    return found - {root}


def _signal_all(number: int) -> None:
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _report(**fields: object) -> None:
    try:
        print(json.dumps(fields), flush=True)  # noqa: T201 - the protocol
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the worker is gone; still stop the tree


def _remove(note: Path | None) -> None:
    """Remove the note, which claims that a process of the tree may be left."""
    if note is not None:
        with contextlib.suppress(OSError):  # then it says so until the lease has expired
            note.unlink()


def main() -> None:
    """Run as ``watchdog.py LOG DEADLINE GRACE PROCESS_BYTES TREE_BYTES COMMAND...``."""
    log, deadline, grace, process_bytes, tree_bytes, *command = sys.argv[1:]
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if _clock() >= float(deadline):
        _report(returncode=-signal.SIGTERM, expired=True, exhausted=None)
        return
    try:
        limits = MemoryLimits(int(process_bytes), int(tree_bytes))
        watchdog = Watchdog(command, log, float(deadline), float(grace), limits)
    except (OSError, subprocess.SubprocessError) as error:
        _report(error=str(error))
        return
    _report(pid=watchdog.child.pid)
    returncode = watchdog.run()
    _remove(watchdog.note)
    _report(returncode=returncode, expired=watchdog.expired, exhausted=watchdog.exhausted)


if __name__ == "__main__":
    main()
