"""The log of updates, and its recovery after a kill."""

import resource
from pathlib import Path

import numpy as np
import pytest

from services.contracts.errors import StorageFull
from services.rollouts.log import updates
from services.rollouts.log.index import key_of
from services.rollouts.log.updates import (
    COLUMNS,
    INDEX,
    VALUES,
    UpdateLog,
    Values,
    find_update,
    find_updates,
    steps_of,
)


def values(tokens: int, first: float) -> Values:
    return (np.arange(tokens * COLUMNS, dtype=np.float32) + first).reshape(tokens, COLUMNS)


def fill(folder: Path, steps: int = 3) -> None:
    """Two trajectories a step, of one and of two tokens."""
    with UpdateLog(folder, keep=0) as log:
        for step in range(1, steps + 1):
            ids = [f"traj-{step}-0", f"traj-{step}-1"]
            log.append(step, ids, [values(1, step), values(2, -step)])


def test_the_values_of_a_trajectory_are_found_with_its_step(tmp_path: Path) -> None:
    fill(tmp_path)

    found = find_update(tmp_path, "traj-2-1")

    assert found is not None
    assert (found.step, found.values is not None) == (2, True)
    assert np.array_equal(found.values, values(2, -2))  # type: ignore[arg-type]  # found, and not None
    keys = [key_of(name) for name in ("traj-2-1", "traj-9-0", "traj-1-0", "traj-2-0")]
    assert steps_of(tmp_path, np.array(keys, np.uint64)).tolist() == [2, 0, 1, 2]
    assert find_update(tmp_path, "traj-9-0") is None


def test_the_last_update_of_a_trajectory_counts_in_whatever_block_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "BLOCK", 3)
    fill(tmp_path, steps=5)
    with UpdateLog(tmp_path, keep=5) as log:
        log.append(6, ["traj-2-0", "traj-6-0", "traj-6-0"], None)

    found = [find_update(tmp_path, name) for name in ("traj-2-0", "traj-1-0", "traj-6-0")]
    keys = [key_of(name) for name in ("traj-1-0", "traj-2-0", "traj-6-0")]

    assert [each and each.step for each in found] == [6, 1, 6]
    assert steps_of(tmp_path, np.array(keys, np.uint64)).tolist() == [1, 6, 6]
    assert steps_of(tmp_path, np.zeros(0, np.uint64)).tolist() == []


def test_a_method_without_values_still_tells_the_step(tmp_path: Path) -> None:
    with UpdateLog(tmp_path, keep=0) as log:
        log.append(1, ["traj-0-0"], None)

    found = find_update(tmp_path, "traj-0-0")

    assert found is not None
    assert (found.step, found.values, found.advantage) == (1, None, None)


def test_the_latest_update_of_each_of_several_trajectories_is_found(tmp_path: Path) -> None:
    fill(tmp_path)
    with UpdateLog(tmp_path, keep=3) as log:
        log.append(4, ["traj-2-1"], [values(2, 10)])

    latest, unknown, first = find_updates(tmp_path, ["traj-2-1", "traj-9-0", "traj-1-0"])

    assert unknown is None
    assert latest is not None
    assert (latest.step, latest.advantage) == (4, 13.5)
    assert first is not None
    assert (first.step, first.advantage) == (1, 3.0)


def test_repeated_steps_replace_earlier_entries(tmp_path: Path) -> None:
    fill(tmp_path)

    with UpdateLog(tmp_path, keep=1) as log:
        assert find_update(tmp_path, "traj-2-0") is None
        log.append(2, ["traj-2-0"], [values(3, 50)])

    repeated, kept = find_update(tmp_path, "traj-2-0"), find_update(tmp_path, "traj-1-1")
    assert repeated is not None
    assert np.array_equal(repeated.values, values(3, 50))  # type: ignore[arg-type]  # found, and not None
    assert kept is not None
    assert np.array_equal(kept.values, values(2, -1))  # type: ignore[arg-type]  # found, and not None


@pytest.mark.parametrize("name", [INDEX, VALUES])
def test_a_torn_entry_hides_no_others(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-1])

    cut, kept = find_update(tmp_path, "traj-3-1"), find_update(tmp_path, "traj-3-0")

    assert cut is None or cut.values is None
    assert kept is not None
    assert np.array_equal(kept.values, values(1, 3))  # type: ignore[arg-type]  # found, and not None


def test_a_job_without_updates_has_none(tmp_path: Path) -> None:
    assert find_update(tmp_path, "traj-0-0") is None
    assert steps_of(tmp_path, np.array([key_of("traj-0-0")], np.uint64)).tolist() == [0]


def test_a_disk_that_fills_within_a_step_shifts_no_later_values(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with UpdateLog(tmp_path, keep=0) as log:
        log.append(1, ["traj-1-0"], [values(10, 1)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (10 * 12 + 50, limits[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                log.append(2, ["traj-2-0", "traj-2-1"], [values(2, 2), values(20, 3)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        log.append(3, ["traj-3-0"], [values(3, 4)])

    found = find_update(tmp_path, "traj-3-0")
    assert found is not None
    assert np.array_equal(found.values, values(3, 4))  # type: ignore[arg-type]  # found, and not None
    assert find_update(tmp_path, "traj-2-0") is None
    with UpdateLog(tmp_path, keep=3) as log:
        log.append(4, ["traj-4-0"], [values(1, 5)])
    later = find_update(tmp_path, "traj-4-0")
    assert later is not None
    assert np.array_equal(later.values, values(1, 5))  # type: ignore[arg-type]  # found, and not None


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    (tmp_path / VALUES).symlink_to("/dev/full")
    with UpdateLog(tmp_path, keep=0) as log, pytest.raises(StorageFull, match=VALUES):
        log.append(1, ["traj-1-0"], [values(1, 1)])
