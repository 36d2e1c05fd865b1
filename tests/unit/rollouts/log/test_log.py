"""The trajectory log and its index, after a kill at any moment."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rollouts.tool_runs import ProgramRun, SearchRun
from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.sandbox.programs import RunStatus
from services.rollouts.log.index import INDEX, TRAJECTORIES
from services.rollouts.log.log import IndexedLog, open_listing, read_indexed
from tests.support.trajectories import call, trajectory


def fill(folder: Path, *trajectories: Trajectory) -> None:
    with IndexedLog(folder) as log:
        for each in trajectories:
            log.append(each)


def ids(folder: Path) -> list[str]:
    return [each.id for each in read_indexed(folder)]


def test_appended_trajectories_are_read_back(tmp_path: Path) -> None:
    made = [trajectory(n, reward=n / 2) for n in range(5)]

    fill(tmp_path, *made)

    assert list(read_indexed(tmp_path)) == made


def test_runs_recorded_without_failures_and_services_are_read(tmp_path: Path) -> None:
    runs = [ProgramRun(language="python", status=RunStatus.SUCCESS), SearchRun(topk=3, queries=[])]
    made = trajectory(calls=[call(run=run) for run in runs])
    record = made.model_dump(mode="json")
    for each in record["turns"][0]["calls"]:
        each["run"].pop("failure")
        each["run"].pop("own", None)

    fill(tmp_path, Trajectory.model_validate(record))

    assert list(read_indexed(tmp_path)) == [made]


def test_a_job_that_has_not_started_has_no_trajectories(tmp_path: Path) -> None:
    assert ids(tmp_path) == []


def test_a_trajectory_is_listed_while_the_log_is_open(tmp_path: Path) -> None:
    with IndexedLog(tmp_path) as log:
        log.append(trajectory(0))
        assert ids(tmp_path) == ["traj-0-0"]
        log.append(trajectory(1))
        assert ids(tmp_path) == ["traj-0-0", "traj-1-0"]


def test_a_rewritten_trajectory_counts_once(tmp_path: Path) -> None:
    fill(tmp_path, trajectory(0, reward=0.0), trajectory(1), trajectory(0, reward=1.0))

    assert [(each.id, each.reward) for each in read_indexed(tmp_path)] == [
        ("traj-1-0", None),
        ("traj-0-0", 1.0),
    ]


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_log_can_be_truncated_to_its_first_records(tmp_path: Path, keep: int) -> None:
    fill(tmp_path, *(trajectory(n) for n in range(5)))

    with IndexedLog(tmp_path, keep=keep) as log:
        assert log.count == keep
        log.append(trajectory(9))

    assert ids(tmp_path) == [f"traj-{n}-0" for n in [*range(keep), 9]]


def test_missing_index_is_rebuilt(tmp_path: Path) -> None:
    fill(tmp_path, trajectory(0), trajectory(1))
    (tmp_path / INDEX).unlink()

    fill(tmp_path, trajectory(2))

    assert ids(tmp_path) == ["traj-0-0", "traj-1-0", "traj-2-0"]


def test_zero_filled_lines_after_a_power_loss_are_truncated(tmp_path: Path) -> None:
    fill(tmp_path, trajectory(0), trajectory(1), trajectory(2))
    last = open_listing(tmp_path).place_of("traj-1-0")
    assert last is not None
    with open(tmp_path / TRAJECTORIES, "r+b") as file:
        size = file.seek(0, 2)
        file.seek(last.offset)
        file.write(b"\0" * (size - last.offset))

    fill(tmp_path, trajectory(3))

    assert ids(tmp_path) == ["traj-0-0", "traj-3-0"]


@given(data=st.data())
def test_complete_trajectories_survive_a_kill_at_any_byte(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    fill(folder, *(trajectory(n, tokens=n) for n in range(4)))
    lines = (folder / TRAJECTORIES).read_bytes()
    entries = (folder / INDEX).read_bytes()
    kept = lines[: data.draw(st.integers(0, len(lines)))]
    (folder / TRAJECTORIES).write_bytes(kept)
    (folder / INDEX).write_bytes(entries[: data.draw(st.integers(0, len(entries)))])
    whole = kept.count(b"\n")

    fill(folder, trajectory(8), trajectory(9))

    assert ids(folder) == [f"traj-{n}-0" for n in [*range(whole), 8, 9]]
    assert (folder / TRAJECTORIES).read_bytes().count(b"\n") == whole + 2
