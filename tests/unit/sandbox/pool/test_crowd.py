"""Programs that become a crowd of processes yield to others, and end at their time limit."""

import asyncio
import time
from typing import cast

import pytest

from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.pool import crowd
from services.sandbox.pool.crowd import CrowdWatch, Occupant


class Group:
    """A control group with so many processes; ``weights`` are those that it was given."""

    def __init__(self, processes: int | None) -> None:
        self.processes = processes
        self.weights: list[float] = []
        self.looks = 0
        self.looked_often = asyncio.Event()

    def process_count(self) -> int | None:
        self.looks += 1
        if self.looks > 3:
            self.looked_often.set()
        return self.processes

    def set_cpu_weight(self, weight: float) -> None:
        self.weights.append(weight)


def is_ended(group: Group, seconds: float | None) -> bool:
    """Watch a program of this group for some looks; return whether it was ended."""
    ended: list[bool] = []
    occupant = Occupant(1, time.monotonic(), 1)

    async def watch() -> None:
        watching = CrowdWatch(cast(Cgroup, group), seconds, lambda: ended.append(True))
        watching.start(occupant)
        async with asyncio.timeout(60):
            await group.looked_often.wait()
        watching.stop()

    asyncio.run(watch())
    assert occupant.yields is bool(group.weights)
    return bool(ended)


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "_CHECK_SECONDS", 0.001)
    monkeypatch.setattr(crowd, "_OVERDUE_SECONDS", 0.0)


def test_a_crowd_yields_until_it_ends() -> None:
    group = Group(257)

    assert not is_ended(group, 600.0)
    less, normal = group.weights
    assert less < normal == 1.0


def test_an_overdue_crowd_is_ended() -> None:
    assert is_ended(Group(257), 0.0)


def test_a_crowd_without_a_time_limit_is_not_ended() -> None:
    assert not is_ended(Group(257), None)


@pytest.mark.parametrize("processes", [1, 20, None])
def test_other_programs_are_left_to_their_slot(processes: int | None) -> None:
    group = Group(processes)

    assert not is_ended(group, 0.0)
    assert group.weights == []
