"""Trajectories in a Parquet file."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.rollouts.trajectories import Trajectory
from services.rollouts.log.parquet import SCHEMA, write_parquet
from tests.support.evaluation.trajectory_files import read_parquet
from tests.unit.rollouts.log.examples import trajectories, trajectory


@given(st.lists(trajectories(), max_size=3))
def test_trajectories_round_trip(written: list[Trajectory]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        write_parquet(written, path)
        assert read_parquet(path) == written


def test_every_field_has_a_column(tmp_path: Path) -> None:
    assert set(SCHEMA.names) == set(Trajectory.model_fields) - {"object"}


def test_token_columns_are_numeric_and_rewards_can_be_filtered(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    good = trajectory("good").model_copy(update={"reward": 1.0})
    write_parquet([trajectory("none"), good], path)
    table = pq.read_table(path, columns=["id", "log_probs"], filters=[("reward", ">", 0.5)])
    assert table.to_pylist() == [{"id": "good", "log_probs": [-0.25] * 3}]


def test_trajectories_are_written_in_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet((trajectory(str(number)) for number in range(1200)), path)
    assert pq.ParquetFile(path).metadata.num_row_groups == 3
    assert [item.id for item in read_parquet(path)] == [str(number) for number in range(1200)]


def test_an_interrupted_write_keeps_the_previous_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet([trajectory("first")], path)

    def broken() -> Iterator[Trajectory]:
        yield trajectory("second")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parquet(broken(), path)
    assert [item.id for item in read_parquet(path)] == ["first"]
