"""When groups of rollouts may begin and be trained on, whatever their speeds."""

from hypothesis import given
from hypothesis import strategies as st

from services.trainer.rl.scheduler import StalenessScheduler


def test_without_staleness_nothing_begins_while_the_policy_is_updated() -> None:
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


def test_a_slow_group_holds_the_update_that_would_make_it_too_old() -> None:
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


def test_an_update_that_need_not_wait_takes_what_has_finished() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=1)
    for number in range(4):
        schedule.begin(number)
    schedule.finish(3)
    assert schedule.ready() is None
    schedule.finish(1)
    assert schedule.ready() == [3, 1]


def test_a_dropped_group_makes_room_for_another() -> None:
    schedule = StalenessScheduler(size=2, max_staleness=0, replacements=1)
    schedule.begin(0)
    schedule.begin(1)
    schedule.drop(0)
    assert schedule.free_slots == 1


def test_beyond_the_replacements_the_batch_is_what_there_is() -> None:
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


def test_when_all_replacements_are_dropped_too_the_batch_is_empty() -> None:
    schedule = StalenessScheduler(size=1, max_staleness=0, replacements=0)
    schedule.begin(0)
    schedule.drop(0)
    assert schedule.ready() == []
    schedule.consume([])
    schedule.skip()
    assert (schedule.version, schedule.free_slots) == (0, 1)


def test_no_more_groups_begin_than_will_be_trained_on() -> None:
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
def test_in_any_order_of_finishing_nothing_gets_too_old_and_training_never_stalls(
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
            assert under_way, "waits, but nothing is being played"
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
