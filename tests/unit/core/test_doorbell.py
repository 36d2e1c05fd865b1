"""Doorbells between the processes of a host."""

import contextlib
import os
import threading
import time
from pathlib import Path

from services.core.changes import Doorbell, ring

LONG = 60.0


def waited(bell: Doorbell, seconds: float) -> float:
    start = time.monotonic()
    bell.wait(seconds)
    return time.monotonic() - start


def test_a_ring_before_the_wait_is_not_lost_and_counts_once(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    for _ in range(3):
        ring(tmp_path)

    assert waited(bell, LONG) < LONG / 2
    assert waited(bell, 0.05) >= 0.05
    bell.close()


def test_everybody_who_waits_is_woken(tmp_path: Path) -> None:
    bells = [Doorbell(tmp_path) for _ in range(3)]
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda each: found.append(waited(each, LONG)), args=(bell,))
        for bell in bells
    ]
    for thread in threads:
        thread.start()
    ring(tmp_path)
    for thread in threads:
        thread.join(LONG)

    assert len(found) == 3
    assert max(found) < LONG / 2
    for bell in bells:
        bell.close()
    assert list(tmp_path.iterdir()) == []


def test_bells_of_killed_processes_are_removed_and_others_stay(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    (own,) = tmp_path.iterdir()
    abandoned = own.with_name(f"1-dead{own.name.removeprefix(own.name.split('.')[0])}")
    elsewhere = tmp_path / "1-x.another-host.bell"
    for path in (abandoned, elsewhere):
        os.mkfifo(path)

    ring(tmp_path)

    assert sorted(tmp_path.iterdir()) == sorted([own, elsewhere])
    bell.close()


def test_a_full_pipe_blocks_nobody(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(bell._pipe, bytes(1 << 12))

    ring(tmp_path)

    assert waited(bell, LONG) < LONG / 2
    bell.close()
