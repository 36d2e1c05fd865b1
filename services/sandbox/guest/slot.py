"""A fork of a zygote that serves one run after another.

The next run's program is already waiting, confined, when a request arrives, and reads it itself.
The slot watches the clock and the service, kills every process, and answers with the result and the
fetched files.
"""

import math
import os
import select
import signal
import socket
import time
from typing import NoReturn

from services.sandbox.guest import (
    accounting,
    container,
    files,
    frames,
    namespaces,
    program,
    stack,
    syscalls,
)
from services.sandbox.guest.layout import Configuration
from services.sandbox.guest.namespaces import NamespacedRun
from services.sandbox.guest.network import SlotNetwork
from services.sandbox.guest.waiting import waited_seconds

Run = NamespacedRun | container.ContainedRun

_DYING_SECONDS = 0.5
"""How long a result waits for the last killed processes."""


@stack.hide_frames
def main(channel: socket.socket, configuration: Configuration, user: int | None) -> NoReturn:
    """Serve runs over ``channel`` until it closes, as ``user`` if slots have user ids.

    The first message arrives once this process is in its control group, which all its children
    inherit.
    """
    slot = None
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        program.limit_resources(configuration)
        if configuration.tier == "full" and user is not None:
            namespaces.become(user)
        if configuration.tier == "full":
            syscalls.die_with_parent()  # otherwise it must end its run first, see `ZygoteDied`
        syscalls.request_short_slices()  # or hundreds of processes come before it at the time limit
        frames.receive(channel)
        if configuration.tier == "container" and user is not None:
            container.take_over(configuration.root, user)
        slot = GuestSlot(channel, configuration, user)
        while True:
            slot.serve()
    except frames.ChannelClosed:
        os._exit(0)
    except program.RequestRejected as refusal:
        frames.send(channel, {"failure": str(refusal), "final": True, "started": False})
    except BaseException as error:  # reported; the process exits either way
        started = slot is not None and slot.has_started
        frames.send(channel, {"failure": f"{type(error).__name__}: {error}", "started": started})
    finally:
        os._exit(1)


class ZygoteDied(Exception):
    """The slot's zygote is dead: nobody would kill the run if the slot died too."""


class GuestSlot:
    """Serves runs; see `main`. ``has_started`` once the current run's program has started."""

    def __init__(
        self, channel: socket.socket, configuration: Configuration, user: int | None
    ) -> None:
        self._channel = channel
        self._configuration = configuration
        self._user = user
        self._zygote = os.pidfd_open(os.getppid())
        self._pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._network = SlotNetwork()
        self._peak, self._waited = 0, 0.0
        self.has_started = False

    @stack.hide_frames
    def serve(self) -> None:
        """Prepare a run, report ready, let it take its request, wait for its end, answer."""
        run = self._prepare()
        self._peak, self._waited, self.has_started = 0, 0.0, False
        try:
            listeners = tuple(run.listeners)
            frames.send(self._channel, run.layout._asdict(), descriptors=listeners)
            for listener in listeners:
                os.close(listener)
            self._await_request()
            params = program.start_request(run.control)
            self.has_started = True
            ending = self._watch(run, params)
            wall = time.monotonic() - params.started_at
        except BaseException:
            run.end()
            run.close()
            raise
        if ending == "exited" or params.fetches or run.kill(_DYING_SECONDS):
            ended = run.end()
            self._answer(self._result(ending, wall, ended, params), run, fetches=params.fetches)
        else:  # nothing of it runs any more, but on a busy machine hundreds of processes die slowly
            ended = program.killed(run.program)
            self._answer(self._result(ending, wall, ended, params), run, fetches=False)
            run.end()
        run.close()

    @stack.hide_frames
    def _prepare(self) -> Run:
        if self._configuration.tier == "full":
            namespace, network = self._pid_namespace, self._network
            return NamespacedRun(self._configuration, self._channel, namespace, network)
        if self._user is None:
            raise ValueError("a slot of the container tier needs a user id")
        return container.ContainedRun(self._configuration, self._channel, self._user)

    def _await_request(self) -> None:
        """Wait for the next request without reading it; raises `ZygoteDied`."""
        poll = select.poll()
        for descriptor in (self._channel, self._zygote):
            poll.register(descriptor, select.POLLIN)
        while True:
            if self._zygote in dict(poll.poll()):
                raise ZygoteDied
            if frames.is_request_next(self._channel):
                return

    def _watch(self, run: Run, params: program.RunParams) -> str:
        """Wait for the program, the clock, the service, or a sampled limit.

        Raises `ZygoteDied`.
        """
        process = os.pidfd_open(run.program)
        poll = select.poll()
        for descriptor in (process, self._channel, self._zygote):
            poll.register(descriptor, select.POLLIN)
        for sockets in run.sockets:
            poll.register(sockets, select.POLLIN)
        end = math.inf if params.seconds is None else params.started_at + params.seconds
        run.ends_at = end
        pause = accounting.SHORTEST_PAUSE if self._configuration.sampled else None
        due = 0.0
        try:
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    user = run.user if isinstance(run, container.ContainedRun) else None
                    self._waited = waited_seconds(run.processes, user)
                    return "timed_out"
                ready = dict(poll.poll(_milliseconds(left, pause)))
                if process in ready:
                    return "exited"
                if self._zygote in ready:
                    raise ZygoteDied
                if self._channel.fileno() in ready:
                    frames.take_cancel(self._channel)
                    return "cancelled"
                self._admit_sockets(poll, ready)
                if pause is not None:
                    exceeded, due = self._sample(run, params.memory_bytes, due)
                    # A look that was cut short at the end overstates what it did not see.
                    if exceeded and time.monotonic() < end:
                        return exceeded
        finally:
            os.close(process)

    def _admit_sockets(self, poll: select.poll, ready: dict[int, int]) -> None:
        for sockets, event in ready.items():
            if event & select.POLLIN:
                self._network.admit_socket(sockets)
            else:  # all that could ask have ended
                poll.unregister(sockets)

    def _sample(self, run: Run, memory_bytes: int, due: float) -> tuple[str | None, float]:
        """Sample the run if due; return the limit it exceeds, and when the next sample is due."""
        run.reap_orphans()
        sampled_at = time.monotonic()
        is_urgent = run.disk_is_filling()
        if not is_urgent and sampled_at < due:
            return None, due
        exceeded = self._exceeded(run, memory_bytes, is_urgent=is_urgent)
        ended = time.monotonic()
        if run.fork_bombs.suspects:
            return exceeded, ended
        return exceeded, ended + accounting.pause_after(ended - sampled_at)

    def _exceeded(self, run: Run, memory_bytes: int, *, is_urgent: bool) -> str | None:
        """The sampled limit that the run exceeds, checking the fastest-growing first."""
        configuration = self._configuration
        limits = configuration.disk_bytes, configuration.inodes
        try:
            # First: inspecting the processes of a fork bomb closely takes seconds.
            resident = run.resident() if configuration.samples_processes else None
            if run.exceeds_disk_limit(*limits, afresh=is_urgent):
                return "out_of_disk"
            if resident is None or not configuration.sampled_memory:
                return None
            memory = run.memory(memory_bytes, resident)
        except accounting.ForkBomb:
            return "fork_bomb"
        self._peak = max(self._peak, memory)
        return "out_of_memory" if memory > memory_bytes else None

    def _result(
        self, ending: str, wall: float, ended: program.Ended, params: program.RunParams
    ) -> frames.Header:
        return {
            "exit_reason": ending,
            "return_code": ended.return_code,
            "wall_seconds": wall,
            "cpu_seconds": max(0.0, ended.cpu_seconds - params.spent_before),
            "waited_seconds": self._waited,
            # Samples are of all processes, but rare; the kernel saw every moment of the largest.
            "peak_memory_bytes": max(self._peak, ended.peak_memory_bytes),
            "files": [],
            "left_out": [],
        }

    def _answer(self, answer: frames.Header, run: Run, *, fetches: bool) -> None:
        if not fetches:
            frames.send(self._channel, answer)
            return
        # A fork reads the names and forgets them when it exits.
        child = syscalls.fork()
        if child == 0:
            files.answer_with_files(self._channel, answer, run.names, run.workspace)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise OSError("the files could not be sent")


def _milliseconds(left: float, pause: float | None) -> float | None:
    shortest = left if pause is None else min(left, pause)
    return None if shortest == math.inf else shortest * 1000
