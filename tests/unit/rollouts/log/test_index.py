"""Pages of trajectories: sorted, filtered, and each shown once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from services.rollouts.log import listing
from services.rollouts.log.columns import BLOCK
from services.rollouts.log.filter import TrajectoryFilter
from services.rollouts.log.index import errors_of
from services.rollouts.log.log import IndexedLog, open_listing, read_places
from tests.support.trajectories import call, trajectory

EVERY = TrajectoryFilter()


def made() -> list[Trajectory]:
    failed = call(outcome=CallOutcome.TIMED_OUT)
    return [
        trajectory(0, reward=0.5, tokens=4),
        trajectory(1, reward=None, tokens=9, finish_reason=FinishReason.ENGINE_FAILED),
        trajectory(2, reward=1.0, tokens=2, calls=[failed, failed]),
        trajectory(3, reward=-1.0, tokens=4, malformed=1),
        trajectory(4, reward=0.5, tokens=0, reward_error="the judge is away"),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with IndexedLog(tmp_path) as log:
        for each in made():
            log.append(each)
    return tmp_path


def prompts(
    folder: Path,
    order: TrajectoryOrder = TrajectoryOrder.FINISHED,
    *,
    descending: bool = False,
    where: TrajectoryFilter = EVERY,
    limit: int = 100,
) -> list[int]:
    """The prompts of all trajectories, over all pages."""
    found: list[Trajectory] = []
    has_more = True
    while has_more:
        after = found[-1].id if found else None
        places, has_more = open_listing(folder).page(
            where, order, descending=descending, after=after, limit=limit
        )
        found += read_places(folder, places)
    return [each.prompt_index for each in found]


@pytest.mark.parametrize(
    ("order", "ascending", "descending"),
    [
        (TrajectoryOrder.FINISHED, [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]),
        (TrajectoryOrder.REWARD, [3, 0, 4, 2, 1], [2, 4, 0, 3, 1]),
        (TrajectoryOrder.LENGTH, [4, 2, 0, 3, 1], [1, 3, 0, 2, 4]),
        (TrajectoryOrder.ERRORS, [0, 1, 3, 4, 2], [2, 4, 3, 1, 0]),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_missing_rewards_sort_last(
    folder: Path,
    order: TrajectoryOrder,
    ascending: list[int],
    descending: list[int],
    limit: int,
) -> None:
    assert prompts(folder, order, limit=limit) == ascending
    assert prompts(folder, order, descending=True, limit=limit) == descending


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (TrajectoryFilter(min_reward=0.5), [0, 2, 4]),
        (TrajectoryFilter(max_reward=0.5), [0, 3, 4]),
        (TrajectoryFilter(min_reward=0.0, max_reward=0.5), [0, 4]),
        (TrajectoryFilter(min_length=4), [0, 1, 3]),
        (TrajectoryFilter(max_length=2), [2, 4]),
        (TrajectoryFilter(has_errors=True), [1, 2, 3, 4]),
        (TrajectoryFilter(has_errors=False), [0]),
        (TrajectoryFilter(finish_reason=FinishReason.ENGINE_FAILED), [1]),
        (TrajectoryFilter(prompt_index=3), [3]),
        (TrajectoryFilter(prompt_index=3, min_reward=0.0), []),
    ],
)
@pytest.mark.parametrize("limit", [1, 100])
def test_trajectories_can_be_filtered(
    folder: Path, where: TrajectoryFilter, expected: list[int], limit: int
) -> None:
    assert prompts(folder, where=where, limit=limit) == expected


def test_a_failure_cause_is_one_line() -> None:
    assert [errors_of(each) for each in made()] == [0, 1, 2, 1, 1]


def test_a_page_can_continue_after_a_filtered_trajectory(folder: Path) -> None:
    places, _ = open_listing(folder).page(
        TrajectoryFilter(min_reward=0.5),
        TrajectoryOrder.FINISHED,
        descending=False,
        after="traj-3-0",
        limit=5,
    )

    assert [each.id for each in read_places(folder, places)] == ["traj-4-0"]


def test_a_page_after_an_unknown_id_is_refused(folder: Path) -> None:
    with pytest.raises(LookupError):
        open_listing(folder).page(
            EVERY, TrajectoryOrder.REWARD, descending=True, after="traj-9-9", limit=5
        )


@given(
    rewards=st.lists(st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 0.5, 1.0])), max_size=12),
    order=st.sampled_from(TrajectoryOrder),
    descending=st.booleans(),
    limit=st.integers(1, 5),
    block=st.sampled_from([2, 3, BLOCK]),
)
def test_pagination_shows_every_trajectory_once(
    tmp_path_factory: pytest.TempPathFactory,
    rewards: list[float | None],
    order: TrajectoryOrder,
    descending: bool,
    limit: int,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("pages")
    with IndexedLog(folder) as log:
        for index, reward in enumerate(rewards):
            log.append(trajectory(index, reward=reward, tokens=index % 3))

    whole = prompts(folder, order, descending=descending, limit=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "BLOCK", block)
        found = prompts(folder, order, descending=descending, limit=limit)

    assert found == whole
    assert sorted(found) == list(range(len(rewards)))
