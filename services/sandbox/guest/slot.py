"""A fork of a zygote that carries out one run after another.

It has the next run's program waiting, confined, before an order comes. The program takes the
order; the slot watches the clock and the service, ends every process, and answers with what came
of it and with the files that were asked for.
"""

import os
import select
import signal
import socket
import time
from typing import NoReturn

from services.sandbox.guest import files, frames, namespaces, program, stack, syscalls
from services.sandbox.guest.confinement import limit_resources
from services.sandbox.guest.container import ContainedRun
from services.sandbox.guest.layout import Configuration
from services.sandbox.guest.namespaces import NamespacedRun

_SAMPLE_SECONDS = 0.02

Run = NamespacedRun | ContainedRun


@stack.unseen
def main(channel: socket.socket, configuration: Configuration, user: int | None) -> NoReturn:
    """Serve runs over ``channel`` until it closes, as ``user`` where slots have their own.

    The first message comes once this process is where its runs shall be counted: all that it
    starts inherits that place.
    """
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        limit_resources(configuration)
        if configuration.tier == "full" and user is not None:
            namespaces.become(user)
        syscalls.die_with_parent()
        frames.receive(channel)
        slot = Slot(channel, configuration, user)
        while True:
            slot.serve()
    except frames.ChannelClosed:
        os._exit(0)
    except program.OrderRefused as refusal:
        frames.send(channel, {"failure": str(refusal), "final": True})
    except BaseException as error:  # reported; the process ends either way
        frames.send(channel, {"failure": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(1)


class Slot:
    """Carries out runs; see `main`."""

    def __init__(
        self, channel: socket.socket, configuration: Configuration, user: int | None
    ) -> None:
        self._channel = channel
        self._configuration = configuration
        self._user = user
        self._pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._peak = 0

    @stack.unseen
    def serve(self) -> None:
        """Have a run ready, say so, let it take its order, see it to its end, answer."""
        run = self._prepare()
        self._peak = 0
        try:
            listeners = tuple(run.listeners)
            frames.send(self._channel, run.places._asdict(), descriptors=listeners)
            for listener in listeners:
                os.close(listener)
            frames.await_message(self._channel)
            terms = program.let_begin(run.orders)
            ending = self._watch(run, terms)
            wall = time.monotonic() - terms.began
        except BaseException:
            run.end()
            run.close()
            raise
        ended = run.end()
        answer: frames.Header = {
            "ending": ending,
            "return_code": ended.return_code,
            "wall_seconds": wall,
            "cpu_seconds": max(0.0, ended.cpu_seconds - terms.spent_before),
            "peak_memory_bytes": self._peak or ended.peak_memory_bytes,
            "files": [],
            "left_out": [],
        }
        self._answer(answer, run, terms.wanted)
        run.close()

    @stack.unseen
    def _prepare(self) -> Run:
        if self._configuration.tier == "full":
            return NamespacedRun(self._configuration, self._channel, self._pid_namespace)
        if self._user is None:
            raise ValueError("a slot of the container tier has a user of its own")
        return ContainedRun(self._configuration, self._channel, self._user)

    def _watch(self, run: Run, terms: program.Terms) -> str:
        """Wait for the program, the clock, the service, or a limit that is sampled."""
        process = os.pidfd_open(run.program)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        end = None if terms.seconds is None else terms.began + terms.seconds
        pause = _SAMPLE_SECONDS if self._configuration.sampled else None
        try:
            while True:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return "timed_out"
                ready = dict(poll.poll(_milliseconds(left, pause)))
                if process in ready:
                    return "exited"
                if ready:
                    frames.take_cancel(self._channel)
                    return "cancelled"
                if pause is not None:
                    began = time.monotonic()
                    if exceeded := self._exceeded(run, terms.memory_bytes):
                        return exceeded
                    # What takes long to count is counted less often.
                    pause = max(_SAMPLE_SECONDS, 10 * (time.monotonic() - began))
        finally:
            os.close(process)

    def _exceeded(self, run: Run, memory_bytes: int) -> str | None:
        """Which bound the run has passed, among those that nobody else watches."""
        configuration = self._configuration
        if configuration.sampled_memory:
            memory = run.memory(memory_bytes)
            self._peak = max(self._peak, memory)
            if memory > memory_bytes:
                return "out_of_memory"
        files = run.files(configuration.inodes)
        if files.size > configuration.disk_bytes or files.number > configuration.inodes:
            return "out_of_disk"
        return None

    def _answer(self, answer: frames.Header, run: Run, wanted: int | None) -> None:
        if wanted is None:
            frames.send(self._channel, answer)
            return
        # A fork reads the names, and forgets them with its end.
        child = syscalls.fork()
        if child == 0:
            files.answer_with_files(self._channel, answer, wanted, run.workspace)
            os._exit(0)
        os.close(wanted)
        if os.waitpid(child, 0)[1]:
            raise OSError("the files could not be sent")


def _milliseconds(left: float | None, pause: float | None) -> float | None:
    times = [seconds for seconds in (left, pause) if seconds is not None]
    return min(times) * 1000 if times else None
