"""Records survive kills; a new writer truncates a torn line."""

import asyncio
import errno
import os
import resource
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.contracts.errors import StorageFull
from services.contracts.rollouts.trajectories import Trajectory
from services.datasets.append_log import (
    AppendLog,
    LineSpan,
    UnreadableRecord,
    read_record,
    read_records,
)
from tests.support.waiting import wait_for
from tests.unit.rollouts.log.examples import trajectories, trajectory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trajectories.jsonl"


def write(path: Path, *written: Trajectory) -> list[LineSpan]:
    with AppendLog[Trajectory](path) as log:
        return [log.append(item) for item in written]


def ids(path: Path) -> list[str]:
    return [item.id for _, item in read_records(path, Trajectory)]


@given(st.lists(trajectories(), max_size=3))
def test_records_round_trip(written: list[Trajectory]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        places = write(path, *written)
        assert list(read_records(path, Trajectory)) == list(zip(places, written, strict=True))
        assert [read_record(path, Trajectory, place) for place in places] == written


def test_an_appended_record_is_immediately_readable(path: Path) -> None:
    with AppendLog[Trajectory](path) as log:
        log.append(trajectory(text="zażółć\n\u2028"))
        assert [item.turns[0].text for _, item in read_records(path, Trajectory)] == [
            "zażółć\n\u2028"
        ]
        assert path.read_bytes().count(b"\n") == 1


def test_reading_starts_at_an_offset(path: Path) -> None:
    first, second = write(path, trajectory("a"), trajectory("b"))
    assert list(read_records(path, Trajectory, first.end)) == [(second, trajectory("b"))]
    assert list(read_records(path, Trajectory, second.end)) == []


def test_a_missing_file_has_no_records(path: Path) -> None:
    assert ids(path) == []


def test_a_torn_last_line_is_skipped_and_truncated_by_the_next_writer(path: Path) -> None:
    write(path, trajectory("a"))
    with open(path, "ab") as file:
        file.write(trajectory("torn").model_dump_json().encode()[:-5])
    assert ids(path) == ["a"]
    write(path, trajectory("b"))
    assert ids(path) == ["a", "b"]


def test_a_long_torn_line_is_truncated_completely(path: Path) -> None:
    write(path, trajectory("a"))
    with open(path, "ab") as file:
        file.write(b"{" * 3_000_000)
    write(path, trajectory("b"))
    assert ids(path) == ["a", "b"]


def test_a_file_with_only_a_torn_line_becomes_empty(path: Path) -> None:
    path.write_bytes(b'{"id": "to')
    with AppendLog[Trajectory](path) as log:
        assert log.end == 0
    assert path.read_bytes() == b""


def test_truncation_ends_at_a_line_boundary(path: Path) -> None:
    first, *_ = write(path, trajectory("a"), trajectory("b"), trajectory("c"))
    with AppendLog[Trajectory](path, end=first.end) as log:
        assert log.append(trajectory("d")).offset == first.end
    assert ids(path) == ["a", "d"]


@pytest.mark.parametrize("beyond", [-1, 1, 10_000])
def test_truncation_within_a_line_is_refused(path: Path, beyond: int) -> None:
    (first, _) = write(path, trajectory("a"), trajectory("b"))
    before = path.read_bytes()
    with pytest.raises(UnreadableRecord, match=r"trajectories\.jsonl.*byte"):
        AppendLog[Trajectory](path, end=first.end + beyond)
    assert path.read_bytes() == before


def test_a_corrupt_line_is_named(path: Path) -> None:
    (first,) = write(path, trajectory("a"))
    with open(path, "ab") as file:
        file.write(b'{"id": 1}\n')
    with pytest.raises(UnreadableRecord, match=rf"line at byte {first.end} "):
        ids(path)


def test_mismatched_list_lengths_are_reported_as_corruption(path: Path) -> None:
    damaged = trajectory().model_copy(update={"response_mask": [1]})
    write(path, damaged)
    with pytest.raises(UnreadableRecord, match="different lengths"):
        ids(path)


def test_a_full_disk_is_reported() -> None:
    with pytest.raises(StorageFull), AppendLog[Trajectory](Path("/dev/full")) as log:
        log.append(trajectory())


def test_a_failed_append_leaves_no_partial_record(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with AppendLog[Trajectory](path) as log:
        first = log.append(trajectory("a"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (first.end + 20, limits[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                log.append(trajectory("does not fit"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        log.append(trajectory("b"))
    assert ids(path) == ["a", "b"]


def test_appended_records_are_synced_while_the_job_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", fsync)

    async def job() -> None:
        with AppendLog[Trajectory](path) as log:
            syncing = asyncio.create_task(log.sync_forever())
            place = log.append(trajectory())
            await asyncio.to_thread(wait_for, lambda: place.end in synced, "a sync")
            syncing.cancel()

    asyncio.run(job())


def test_an_unsynced_record_is_synced_on_close(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="broken"):
        write(path, trajectory())


class Attempts(RuleBasedStateMachine):
    """Attempts of a job that append, are killed while writing, and truncate."""

    @initialize()
    def first_attempt(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "trajectories.jsonl"
        self.kept: list[tuple[LineSpan, Trajectory]] = []
        self.log = AppendLog[Trajectory](self.path)

    @rule(written=trajectories())
    def append(self, written: Trajectory) -> None:
        self.kept.append((self.log.append(written), written))

    @rule(torn=st.binary(max_size=50).map(lambda torn: torn.replace(b"\n", b"")))
    def kill(self, torn: bytes) -> None:
        with self.log:
            pass
        with open(self.path, "ab") as file:
            file.write(torn)
        self.log = AppendLog[Trajectory](self.path)

    @rule(data=st.data())
    def resume_from_a_checkpoint(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.kept)))
        with self.log:
            pass
        self.kept = self.kept[:count]
        self.log = AppendLog[Trajectory](self.path, end=self.kept[-1][0].end if self.kept else 0)

    @invariant()
    def kept_records_are_read(self) -> None:
        assert list(read_records(self.path, Trajectory)) == self.kept

    def teardown(self) -> None:
        with self.log:
            pass
        self.folder.cleanup()


TestAttempts = Attempts.TestCase
TestAttempts.settings = settings(stateful_step_count=12)
