"""An outage is told from single losses, whatever the order in which rollouts end."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.failures import InfrastructureCause, LeftOut
from services.core.process.outages import Outage, Outages
from services.core.process.reporter import Reporter
from services.rollouts.outages import WINDOW, OutageWatch

LOST = LeftOut(source="search", cause=InfrastructureCause.RESET, message="reset")
BUG = LeftOut(source="temper", cause=InfrastructureCause.INTERNAL_ERROR, message="a bug")


@given(order=st.permutations(range(2 * WINDOW)), lost=st.integers(0, WINDOW // 2 - 1))
def test_losses_below_the_share_are_no_outage_in_any_order(order: list[int], lost: int) -> None:
    watch = OutageWatch(Path("/nonexistent"), _Silent())
    windows = [watch.begin() for _ in order]
    for number in order:
        is_lost = number % WINDOW < lost
        watch.count(LOST if is_lost else None, windows[number])
    assert watch.outage is None


class _Silent(Reporter):
    def __init__(self) -> None:
        pass

    def message(self, *_: object, **__: object) -> None:
        pass


def test_a_share_of_one_window_is_an_outage_and_is_declared_once(tmp_path: Path) -> None:
    declared: list[str] = []
    watch = OutageWatch(tmp_path, Reporter(tmp_path), 0.25, lambda: declared.append("now"))
    windows = [watch.begin() for _ in range(WINDOW)]
    for window in windows[: WINDOW // 4 - 1]:
        watch.count(LOST, window)
    assert watch.outage is None
    for window in windows[WINDOW // 4 - 1 :]:
        watch.count(LOST, window)
    assert "16 of 64 rollouts were lost; the last: reset: reset" in str(watch.outage)
    assert declared == ["now"]


def test_a_bug_is_no_outage(tmp_path: Path) -> None:
    watch = OutageWatch(tmp_path, Reporter(tmp_path))
    for _ in range(WINDOW):
        watch.count(BUG, watch.begin())
    assert watch.outage is None


def test_an_outage_is_over_once_most_rollouts_of_a_window_are_kept(tmp_path: Path) -> None:
    Outages(tmp_path).begin(Outage("down"))
    watch = OutageWatch(tmp_path, Reporter(tmp_path))
    for number in range(WINDOW // 2 + 1):
        assert Outages(tmp_path).ongoing, number
        watch.count(None, watch.begin())
    assert not Outages(tmp_path).ongoing
