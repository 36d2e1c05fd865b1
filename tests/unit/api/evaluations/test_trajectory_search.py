"""A search reads a bounded part of a job's trajectories per request."""

from pathlib import Path

import pytest

from services.api.trajectories import listing
from services.api.trajectories.listing import (
    TrajectoryQuery,
    TrajectorySelection,
    list_trajectories,
)
from services.api.trajectories.search import contains
from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.contracts.rollouts.trajectories import CallOutcome
from services.rollouts.log.filter import TrajectoryFilter
from services.rollouts.log.log import IndexedLog
from tests.support.trajectories import call, trajectory

EVERY = TrajectorySelection(TrajectoryFilter(), None)


@pytest.mark.parametrize("bound", ["MAX_SCANNED", "MAX_BYTES"])
def test_a_search_resumes_after_what_it_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(listing, bound, 1)
    with IndexedLog(tmp_path) as log:
        for prompt in range(3):
            log.append(trajectory(prompt))
    pages = []
    after = None
    for _ in range(3):
        query = TrajectoryQuery(EVERY, "answer 2", TrajectoryOrder.FINISHED, False, after, 10)
        pages.append(list_trajectories(tmp_path, query))
        after = pages[-1].last_id

    assert [[each.id for each in page.data] for page in pages] == [[], [], ["traj-2-0"]]
    assert [page.has_more for page in pages] == [True, True, False]
    assert [page.last_id for page in pages] == ["traj-0-0", "traj-1-0", "traj-2-0"]


@pytest.mark.parametrize(
    "text", ["QUESTION 0", "answer 0.0", "found it", "cut off", "timed out", "forty-two", "judge"]
)
def test_every_text_of_a_trajectory_is_searched(text: str) -> None:
    calls = [
        call(reply="I found it", shown="I found it, but it was cut off"),
        call(outcome=CallOutcome.TIMED_OUT, error="it timed out"),
    ]
    made = trajectory(calls=calls, gold=["forty-two"], reward_error="no judge")

    assert contains(made, text)
    assert not contains(made, f"{text}!")
