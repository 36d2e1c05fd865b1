"""The user's process: confined first, then told what it is to run.

It takes its order and files from the service itself. The slot never reads them: of what passes
through its memory the next program, a fork of it, could find remains.
"""

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from services.sandbox.guest import files, frames, interpreter, stack, syscalls
from services.sandbox.guest.layout import Places

CANNOT_RUN = 127
"""The exit status of a program that is not there or cannot be executed, as shells have it."""


class Ended(NamedTuple):
    """How a program ended: its return code, CPU seconds, and most resident bytes."""

    return_code: int
    cpu_seconds: float
    peak_memory_bytes: int


class Terms(NamedTuple):
    """What the slot must know of a program that starts.

    Of its order: seconds to run (None: no limit), bytes of memory, and an open pipe with the names
    of the files to fetch, if there are any. When it ``began``, by the monotonic clock, and the CPU
    seconds that its process had spent by then.
    """

    seconds: float | None
    memory_bytes: int
    began: float
    spent_before: float
    wanted: int | None


class OrderRefused(Exception):
    """The program could not take its order, and no other could."""


@stack.unseen
def main(
    slot: socket.socket,
    channel: socket.socket,
    confine: Callable[[], tuple[int, ...]],
    places: Places,
) -> NoReturn:
    """Confine this process, wait for the slot's word, take the order from ``channel``, run it,
    and end as it ends. ``confine`` returns open descriptors for the slot.
    """
    try:
        frames.send(slot, {"confined": True}, descriptors=confine())
        frames.receive(slot)
        os.chdir(places.workspace)
        order, streams = frames.receive(channel)
        files.write_files(channel, order["files"])
        wanted = files.write_names(order["fetch"])
        terms = {"seconds": order["seconds"], "memory_bytes": order["memory_bytes"]}
        terms |= {"began": time.monotonic(), "spent_before": time.process_time()}
        frames.send(slot, terms, descriptors=wanted)
    except frames.ChannelClosed:
        os._exit(0)
    except BaseException as error:  # the slot's to report, if it is still there
        try:
            frames.send(slot, {"failure": f"{type(error).__name__}: {error}"})
        finally:
            os._exit(1)
    _obey(order["program"], streams)


def let_begin(program: socket.socket) -> Terms:
    """Have the program take its order; return as it starts. Raises `OrderRefused`."""
    frames.send(program, {"go": True})
    answer, descriptors = frames.receive(program)
    if "failure" in answer:
        raise OrderRefused(answer["failure"])
    wanted = descriptors[0] if descriptors else None
    return Terms(**answer, wanted=wanted)


def await_confined(orders: socket.socket) -> list[int]:
    """Wait until the program has confined itself, and take its descriptors; raises OSError."""
    answer, descriptors = frames.receive(orders)
    if "failure" in answer:
        raise OSError(f"a program could not be confined: {answer['failure']}")
    return descriptors


def wait(pid: int) -> Ended:
    """Reap the program."""
    _, status, spent = os.wait4(pid, 0)
    return Ended(
        os.waitstatus_to_exitcode(status), spent.ru_utime + spent.ru_stime, spent.ru_maxrss * 1024
    )


@stack.unseen
def _obey(order: frames.Header, descriptors: list[int]) -> NoReturn:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    syscalls.close_from(len(descriptors))
    os.environ.update(order["environment"])
    arguments = order["arguments"]
    match order["kind"]:
        case "executable":
            _execute(arguments)
        case "file":
            interpreter.run_file(arguments)
        case "module":
            interpreter.run_module(arguments)
        case "notebook":
            interpreter.show_own_modules()
            from services.sandbox.guest.notebook import driver  # noqa: PLC0415 - its zygote has it

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
