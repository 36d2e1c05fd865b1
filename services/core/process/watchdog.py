"""The owner of one child's process tree.

It is started by a worker, starts the child in a session of its own, and makes sure that nothing
of the child outlives the worker's right to run it: it ends the whole tree when the pipe from the
worker closes (the worker died), when the lease it was last told of runs out (the worker hangs or
lost its database), when it is asked to, and after the child itself has ended.

As a child subreaper it inherits every orphan of the tree, so that daemons made by a double fork
are found too. It runs as a plain script on the standard library: starting it is cheap.

Protocol: commands are lines on standard input, ``renew <deadline>`` and ``end``; answers are JSON
lines on standard output: ``{"pid": n}`` or ``{"error": "why"}`` at the start, ``{"returncode": n,
"expired": bool}`` at the end. Deadlines are absolute, so that a message that was long on its way
(the worker or this process was stopped) gives no more time than the lease in the database.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.05
CHECK_SECONDS = 1.0
"""How often the deadline is looked at: timeouts stand still while a machine sleeps."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Watchdog:
    """Runs one command until it ends or must end."""

    def __init__(self, command: list[str], log: str, deadline: float, grace: float) -> None:
        self.deadline = deadline
        self.grace = grace
        self.expired = False
        self.commands = b""
        with open(log, "ab", buffering=0) as log_file:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
            )

    def run(self) -> int:
        """Wait for the end of the child or of its right to run; leave no process behind."""
        wakeup, wakeup_writer = os.pipe()
        os.set_blocking(wakeup_writer, False)
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        ended = False
        signal.signal(signal.SIGTERM, lambda *_: self._expire())
        while not ended and self.child.poll() is None:
            timeout = max(0.0, self.deadline - _clock())
            readable, _, _ = select.select([0, wakeup], [], [], min(timeout, CHECK_SECONDS))
            if wakeup in readable:
                os.read(wakeup, 4096)
            ended = self._read_commands() if 0 in readable else False
            self.expired = not ended and _clock() >= self.deadline
            ended = ended or self.expired
            self._reap_orphans()
        self._end_tree()
        return self.child.wait()

    def _expire(self) -> None:
        self.deadline = 0.0

    def _read_commands(self) -> bool:
        """Obey the worker; true when the tree must end."""
        received = os.read(0, 4096)
        if not received:
            return True
        *lines, self.commands = (self.commands + received).split(b"\n")
        for line in lines:
            words = line.split()
            if words[:1] == [b"renew"]:
                self.deadline = float(words[1])
            elif words == [b"end"]:
                return True
        return False

    def _end_tree(self) -> None:
        """Ask every descendant to end, wait the grace period, then kill until none is left."""
        if _descendants():
            _signal_all(signal.SIGTERM)
        deadline = time.monotonic() + self.grace
        while _descendants() and time.monotonic() < deadline:
            self._reap_orphans()
            time.sleep(POLL_SECONDS)
        while _descendants():
            _signal_all(signal.SIGKILL)
            self._reap_orphans()
            time.sleep(POLL_SECONDS)

    def _reap_orphans(self) -> None:
        """Collect ended descendants; the child itself stays for Popen, which keeps its code."""
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
    """The clock of deadlines; it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _descendants() -> set[int]:
    """All living processes below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold any bytes; the fields after the last one are safe.
            state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != b"Z":
            parents[int(entry.name)] = int(parent)
    me = os.getpid()
    found: set[int] = set()
    for pid in parents:
        line = []
        ancestor: int | None = pid
        while ancestor is not None and ancestor not in (me, *found):
            line.append(ancestor)
            ancestor = parents.get(ancestor)
        if ancestor is not None:
            found.update(line)
    return found - {me}


def _signal_all(number: int) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _say(**fields: object) -> None:
    try:
        print(json.dumps(fields), flush=True)  # noqa: T201 - the protocol
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the worker is gone; the tree must still end


def main() -> None:
    """Run as ``watchdog.py <log> <deadline> <grace seconds> <command...>``."""
    log, deadline, grace, *command = sys.argv[1:]
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if _clock() >= float(deadline):
        _say(returncode=-signal.SIGTERM, expired=True)
        return
    try:
        watchdog = Watchdog(command, log, float(deadline), float(grace))
    except (OSError, subprocess.SubprocessError) as error:
        _say(error=str(error))
        return
    _say(pid=watchdog.child.pid)
    returncode = watchdog.run()
    _say(returncode=returncode, expired=watchdog.expired)


if __name__ == "__main__":
    main()
