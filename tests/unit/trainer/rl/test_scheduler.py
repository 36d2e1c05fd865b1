"""When groups may start and be trained on, at any rollout speed."""

from hypothesis import given
from hypothesis import strategies as st

from services.trainer.rl.scheduler import StalenessScheduler


def test_without_staleness_nothing_starts_during_an_update() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=0)
    assert schedule.free_slots == 2
    for number in (0, 1):
        schedule.begin(number)
        schedule.finish(number)
    assert schedule.free_slots == 0
    schedule.consume(schedule.ready() or [])
    assert schedule.free_slots == 0
    schedule.advance_version()
    assert schedule.free_slots == 2


def test_update_waits_for_a_group_that_would_become_too_stale() -> None:
    schedule = StalenessScheduler(size=1, max_staleness=1)
    schedule.begin(0)
    schedule.begin(1)
    schedule.finish(1)
    assert schedule.ready() == [1]
    schedule.consume([1])
    assert schedule.free_slots == 0
    schedule.advance_version()
    schedule.begin(2)
    schedule.finish(2)
    assert schedule.ready() is None
    schedule.finish(0)
    assert schedule.ready() == [0]


def test_update_takes_finished_groups_when_none_is_due() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=1)
    for number in range(4):
        schedule.begin(number)
    schedule.finish(3)
    assert schedule.ready() is None
    schedule.finish(1)
    assert schedule.ready() == [3, 1]


def test_dropped_group_frees_its_slot() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=0, replacements=1)
    schedule.begin(0)
    schedule.begin(1)
    schedule.drop(0)
    assert schedule.free_slots == 1


def test_batch_is_partial_when_replacements_run_out() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=0, replacements=1)
    for number in range(3):
        schedule.begin(number)
    schedule.drop(0)
    schedule.drop(1)
    assert schedule.free_slots == 0
    assert schedule.ready() is None
    schedule.finish(2)
    assert schedule.ready() == [2]
    schedule.consume([2])
    schedule.advance_version()
    assert schedule.free_slots == 2


def test_batch_is_empty_when_all_replacements_are_dropped() -> None:
    schedule = StalenessScheduler(size=1, max_staleness=0, replacements=0)
    schedule.begin(0)
    schedule.drop(0)
    assert schedule.ready() == []
    schedule.consume([])
    schedule.skip()
    assert (schedule.version, schedule.free_slots) == (0, 1)


def test_no_more_groups_start_than_will_be_trained_on() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=3, batches=2)
    assert schedule.free_slots == 4
    schedule.begin(0)
    schedule.begin(1)
    schedule.finish(0)
    schedule.finish(1)
    schedule.consume(schedule.ready() or [])
    schedule.advance_version()
    assert schedule.free_slots == 2


@given(
    size=st.integers(1, 4),
    staleness=st.integers(0, 4),
    order=st.lists(st.integers(0, 2**30), min_size=20, max_size=120),
    dropping=st.integers(0, 4),
)
def test_no_group_becomes_stale_and_training_never_stalls(
    size: int, staleness: int, order: list[int], dropping: int
) -> None:
    schedule = StalenessScheduler(size, staleness)
    started: dict[int, int] = {}
    under_way: list[int] = []
    number = 0
    for choice in order:
        while schedule.free_slots:
            schedule.begin(number)
            started[number] = schedule.version
            under_way.append(number)
            number += 1
        batch = schedule.ready()
        if batch is None:
            assert under_way, "waits with nothing in flight"
            ended = under_way.pop(choice % len(under_way))
            if dropping and choice % 5 < dropping:
                schedule.drop(ended)
            else:
                schedule.finish(ended)
            continue
        assert len(batch) == size
        assert all(schedule.version - started[each] <= staleness for each in batch)
        schedule.consume(batch)
        if staleness == 0:
            assert not under_way
        schedule.advance_version()
