"""The user's process: drop privileges first, then receive what to run.

The program reads its request and files from the service directly. The slot never does: data passing
through its memory could be found by the next program, a fork of it.
"""

import contextlib
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from services.sandbox.guest import files, frames, interpreter, landlock, stack, syscalls
from services.sandbox.guest.layout import Configuration, RunLayout
from services.sandbox.guest.network import watch_sockets

CANNOT_RUN = 127
"""Exit status if a program is missing or not executable, as in shells."""
_STACK_BYTES = 64 << 20
_LOCKED_BYTES = 8 << 20
_LOWEST_PRIORITY = 19
_HIGHEST_OOM_SCORE = 1000


class Ended(NamedTuple):
    """How a program ended: return code, CPU seconds, and peak resident bytes."""

    return_code: int
    cpu_seconds: float
    peak_memory_bytes: int


class RunParams(NamedTuple):
    """What the slot needs to know about a started program.

    From its request: seconds to run (None: no limit), bytes of memory, and whether files are to be
    fetched, whose names are then in its pipe. ``started_at`` is a time of the monotonic clock, and
    ``spent_before`` the CPU seconds its process had used by then.
    """

    seconds: float | None
    memory_bytes: int
    started_at: float
    spent_before: float
    fetches: bool


class RequestRejected(Exception):
    """The program could not process its request, and no retry would help."""


@stack.hide_frames
def main(
    slot: socket.socket,
    channel: socket.socket,
    enter: Callable[[], tuple[int, ...]],
    layout: RunLayout,
    names: int,
) -> NoReturn:
    """Confine this process, wait for the slot's signal, then run the request from ``channel``.

    Exits like the program. ``enter`` confines it and returns descriptors for the slot; the names of
    the files to fetch are written to the pipe ``names``.
    """
    try:
        frames.send(slot, {"confined": True}, descriptors=enter())
        frames.receive(slot)
        os.chdir(layout.workspace)
        request, streams = frames.receive(channel)
        files.write_files(channel, request["files"])
        files.make_links(request["links"])
        params = {"seconds": request["seconds"], "memory_bytes": request["memory_bytes"]}
        params["fetches"] = files.write_names(request["fetch"], names)
        params |= {"started_at": time.monotonic(), "spent_before": time.process_time()}
        frames.send(slot, params)
    except frames.ChannelClosed:
        os._exit(0)
    except BaseException as error:  # the slot reports it, if it still exists
        try:
            frames.send(slot, {"failure": f"{type(error).__name__}: {error}"})
        finally:
            os._exit(1)
    _execute_request(request["program"], streams)


def start_request(program: socket.socket) -> RunParams:
    """Let the program read its request; return when it starts.

    Raises `RequestRejected`, and OSError if the program is dead.
    """
    try:
        frames.send(program, {"go": True})
        answer, _ = frames.receive(program)
    except frames.ChannelClosed:
        raise OSError("the program died before it started") from None
    if "failure" in answer:
        raise RequestRejected(answer["failure"])
    return RunParams(**answer)


def await_confined(control: socket.socket) -> list[int]:
    """Wait until the program is confined, and take its descriptors; raises OSError."""
    answer, descriptors = frames.receive(control)
    if "failure" in answer:
        raise OSError(f"a program could not be confined: {answer['failure']}")
    return descriptors


def wait(pid: int) -> Ended:
    """Wait for the program's end, and reap it."""
    _, status, spent = os.wait4(pid, 0)
    return _ended(status, spent)


def collect(pid: int) -> Ended | None:
    """Reap the program if it has ended."""
    reaped, status, spent = os.wait4(pid, os.WNOHANG)
    return _ended(status, spent) if reaped else None


def _ended(status: int, spent: resource.struct_rusage) -> Ended:
    return Ended(
        os.waitstatus_to_exitcode(status), spent.ru_utime + spent.ru_stime, spent.ru_maxrss * 1024
    )


def killed(pid: int) -> Ended:
    """The result of a program that was sent SIGKILL and may still be dying."""
    return Ended(-signal.SIGKILL, syscalls.cpu_seconds(pid), 0)


@stack.hide_frames
def _execute_request(request: frames.Header, descriptors: list[int]) -> NoReturn:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    syscalls.close_from(len(descriptors))
    for name, value in request["environment"].items():  # `update` looks up abstract base classes
        os.environ[name] = value
    arguments = request["arguments"]
    match request["kind"]:
        case "executable":
            _execute(arguments)
        case "file":
            interpreter.run_file(arguments)
        case "module":
            interpreter.run_module(arguments)
        case "notebook":
            interpreter.show_own_modules()
            from services.sandbox.guest.notebook import driver  # noqa: PLC0415 - loaded in the notebook's zygote only

            driver.main(len(descriptors) - 1)
    os._exit(0)


def _execute(arguments: list[str]) -> NoReturn:
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(arguments[0], arguments)  # noqa: S606 - an argument list, no shell
    except OSError as error:
        os.write(2, f"cannot run {arguments[0]}: {error.strerror}\n".encode())
    os._exit(CANNOT_RUN)


def limit_resources(configuration: Configuration) -> None:
    """Set the resource limits of a slot, which its processes inherit.

    A program may raise its stack's to the hard limit that it would have in the container itself:
    the stack counts as memory.
    """
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, configuration.open_files),
        (resource.RLIMIT_FSIZE, configuration.disk_bytes),
        (resource.RLIMIT_MEMLOCK, _LOCKED_BYTES),
    ):
        resource.setrlimit(kind, (value, value))
    # Programs may raise it, as in Docker: its pages count as memory like all others.
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    soft = _STACK_BYTES if most == resource.RLIM_INFINITY else min(_STACK_BYTES, most)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, most))


def confine(configuration: Configuration, layout: RunLayout, user: int | None) -> int | None:
    """Irrevocably drop privileges: rlimits, Landlock, seccomp; raises OSError.

    In the container tier also become ``user``. Returns the descriptor of `watch_sockets` where a
    run has a network that can be kept.
    """
    os.setsid()
    if configuration.sampled:
        os.nice(_LOWEST_PRIORITY)  # so that the sampling slot always gets its turn
    set_oom_score(_HIGHEST_OOM_SCORE)  # for good: from here on /proc is read-only
    resource.setrlimit(resource.RLIMIT_NPROC, (configuration.processes, configuration.processes))
    own = () if user is None else (f"/proc/{os.getpid()}",)
    landlock.restrict(
        (*configuration.readable, *own),
        (*configuration.writable, *layout),
        scope=configuration.scoped,
        deny_tcp=user is not None,
    )
    if user is not None:
        os.umask(0o077)  # hide its files in shared memory from other runs
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    syscalls.die_with_parent()
    syscalls.set_dumpable(True)  # changing the user cleared it, and with it access to /proc/self
    syscalls.renounce_privileges()
    is_kept = user is None and not configuration.proxied
    sockets = watch_sockets() if is_kept else None
    syscalls.install_filter(configuration.seccomp)
    return sockets


def set_oom_score(score: int) -> None:
    """Make the OOM killer prefer this process and its future forks to those of lower scores."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % score)
