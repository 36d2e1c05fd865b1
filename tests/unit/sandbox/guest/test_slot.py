"""A slot reports the result of a killed program, however slowly its processes die."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from services.sandbox.guest import accounting, frames, program, slot
from services.sandbox.guest.layout import LAYOUT

KILLED = program.Ended(-9, 0.5, 0)


class Dying:
    """A run whose processes are still dying when `kill` returns, or not; notes what it is asked."""

    def __init__(self, steps: list[str], *, is_slow: bool) -> None:
        self.layout = LAYOUT
        self.listeners: tuple[int, ...] = ()
        self.control = None
        self.program = 0
        self.workspace = self.names = 0
        self._steps = steps
        self._is_slow = is_slow

    def kill(self, _seconds: float) -> bool:
        self._steps.append("kill")
        return not self._is_slow

    def end(self) -> program.Ended:
        self._steps.append("end")
        return KILLED

    def close(self) -> None:
        self._steps.append("close")


@pytest.fixture
def steps() -> list[str]:
    return []


@pytest.fixture
def channels() -> Iterator[tuple[socket.socket, socket.socket]]:
    with contextlib.ExitStack() as opened:
        service, guest = map(opened.enter_context, socket.socketpair())
        yield service, guest


def serve(
    monkeypatch: pytest.MonkeyPatch,
    channels: tuple[socket.socket, socket.socket],
    steps: list[str],
    run: Dying,
    watch: Callable[..., str],
) -> frames.Header:
    """Let a slot serve one run that ends as ``watch`` says; return the result that it sends."""
    service, guest = channels
    params = program.RunParams(1.0, 1 << 20, 0.0, 0.0, fetches=False)
    monkeypatch.setattr(slot.GuestSlot, "_prepare", lambda _self: run)
    monkeypatch.setattr(slot.GuestSlot, "_watch", watch)
    monkeypatch.setattr(program, "start_request", lambda _control: params)
    monkeypatch.setattr(program, "killed", lambda _pid: KILLED)

    def sent(_self: Any, answer: frames.Header, *_: Any, **_of: bool) -> None:
        steps.append("answer")
        frames.send(guest, answer)

    monkeypatch.setattr(slot.GuestSlot, "_answer", sent)
    frames.send(service, {"program": {}})
    slot.GuestSlot(guest, None, None).serve()  # type: ignore[arg-type]  # nothing reads it
    frames.receive(service)  # the layout
    return frames.receive(service)[0]


@pytest.mark.parametrize("ending", ["timed_out", "out_of_memory", "out_of_disk", "fork_bomb"])
def test_the_result_of_a_killed_program_does_not_wait_for_slow_deaths(
    monkeypatch: pytest.MonkeyPatch,
    channels: tuple[socket.socket, socket.socket],
    steps: list[str],
    ending: str,
) -> None:
    answer = serve(monkeypatch, channels, steps, Dying(steps, is_slow=True), lambda *_: ending)

    assert steps == ["kill", "answer", "end", "close"]
    assert (answer["exit_reason"], answer["return_code"]) == (ending, -9)


@pytest.mark.parametrize(("ending", "first"), [("timed_out", ["kill"]), ("exited", [])])
def test_a_result_usually_comes_after_every_process_has_died(
    monkeypatch: pytest.MonkeyPatch,
    channels: tuple[socket.socket, socket.socket],
    steps: list[str],
    ending: str,
    first: list[str],
) -> None:
    serve(monkeypatch, channels, steps, Dying(steps, is_slow=False), lambda *_: ending)

    assert steps == [*first, "end", "answer", "close"]


@pytest.mark.parametrize(("sampled", "kernel", "peak"), [(4, 200, 200), (300, 200, 300)])
def test_the_peak_of_memory_is_the_larger_of_samples_and_the_kernels(
    monkeypatch: pytest.MonkeyPatch,
    channels: tuple[socket.socket, socket.socket],
    sampled: int,
    kernel: int,
    peak: int,
) -> None:
    run = Dying([], is_slow=False)
    monkeypatch.setattr(run, "end", lambda: program.Ended(0, 0.5, kernel))

    def sample_once(guest: Any, *_: Any) -> str:
        guest._peak = sampled
        return "exited"

    answer = serve(monkeypatch, channels, [], run, sample_once)

    assert answer["peak_memory_bytes"] == peak


class Crowded:
    """A run of which every look lasts until its time is over, and then overstates its memory."""

    sockets: tuple[int, ...] = ()
    user = None
    ends_at = 0.0

    def __init__(self) -> None:
        self.program = os.getpid()
        self.processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self.fork_bombs = accounting.ForkBombWatch(256)

    def reap_orphans(self) -> None:
        pass

    def disk_is_filling(self) -> bool:
        return False

    def exceeds_disk_limit(self, *_: int, **_of: bool) -> bool:
        return False

    def resident(self) -> accounting.Resident:
        return accounting.Resident(1 << 40, 200, 100)

    def memory(self, _limit: int, _resident: accounting.Resident) -> int:
        while time.monotonic() < self.ends_at:
            time.sleep(0.001)
        return 1 << 40


def test_a_look_that_lasts_until_the_time_limit_leaves_it_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, channels: tuple[socket.socket, socket.socket]
) -> None:
    monkeypatch.setattr(slot, "waited_seconds", lambda *_: 0.0)
    sampled = SimpleNamespace(
        sampled=True, samples_processes=True, sampled_memory=True, disk_bytes=1, inodes=1
    )
    run: Any = Crowded()
    params = program.RunParams(0.3, 1 << 20, time.monotonic(), 0.0, fetches=False)
    try:
        guest = slot.GuestSlot(channels[1], sampled, None)  # type: ignore[arg-type]
        assert guest._watch(run, params) == "timed_out"
    finally:
        os.close(run.processes)
