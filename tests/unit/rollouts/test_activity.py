"""How the time of concurrent rollouts is divided among their phases."""

import asyncio

import pytest

from services.rollouts.activity import Activity, Phase
from tests.support.virtual_time import run_in_virtual_time


async def passes(activity: Activity, phase: Phase, begin: float, seconds: float) -> None:
    await asyncio.sleep(begin)
    with activity.during(phase):
        await asyncio.sleep(seconds)


def test_a_moment_is_shared_by_the_rollouts_that_are_in_a_phase() -> None:
    async def seconds() -> dict[Phase, float]:
        activity = Activity()
        await asyncio.gather(
            passes(activity, Phase.GENERATE, 0.0, 4.0),
            passes(activity, Phase.GENERATE, 0.0, 2.0),
            passes(activity, Phase.TOOLS, 1.0, 1.0),
            passes(activity, Phase.REWARD, 10.0, 3.0),  # for six seconds nothing is in flight
        )
        return dict(activity.seconds())

    found = run_in_virtual_time(seconds())
    assert found == pytest.approx({"generate": 1 + 2 / 3 + 2, "tools": 1 / 3, "reward": 3})


def test_a_phase_that_fails_ends() -> None:
    async def seconds() -> float:
        activity = Activity()
        with pytest.raises(ValueError, match="failed"), activity.during(Phase.TOOLS):
            await asyncio.sleep(2.0)
            raise ValueError("failed")
        await asyncio.sleep(5.0)
        return activity.seconds()[Phase.TOOLS]

    assert run_in_virtual_time(seconds()) == 2.0


def test_the_phase_under_way_counts_so_far() -> None:
    async def seconds() -> float:
        activity = Activity()
        task = asyncio.create_task(passes(activity, Phase.GENERATE, 0.0, 9.0))
        await asyncio.sleep(4.0)
        found = activity.seconds()[Phase.GENERATE]
        await task
        return found

    assert run_in_virtual_time(seconds()) == 4.0
