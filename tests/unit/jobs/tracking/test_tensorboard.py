"""The event file of TensorBoard, which test_real_trackers reads with TensorBoard itself."""

import struct
from pathlib import Path
from typing import Any

from services.jobs.tracking.tracker import End, Trace, TrackedRun
from services.jobs.tracking.trackers.tensorboard import TensorBoardTracker
from tests.support.jobs.event_file import records, steps_of_loss


def begun(folder: Path, saved: dict[str, Any] | None = None) -> TensorBoardTracker:
    tracker = TensorBoardTracker()
    tracker.start(TrackedRun("job", "job", "fine_tuning", str(folder)), {"seed": 1}, saved or {})
    return tracker


def event_file(folder: Path) -> Path:
    (file,) = (folder / "tensorboard").iterdir()
    return file


def test_the_file_has_a_version_the_configuration_and_a_record_for_each_report(
    tmp_path: Path,
) -> None:
    tracker = begun(tmp_path)
    tracker.log(1, {"loss": 0.5, "rewards/chosen": 1e300}, 123.0)
    tracker.traces(1, [Trace("why?", "because", 1.0)])
    tracker.finish(End.SUCCEEDED)

    version, config, scalars, texts = records(event_file(tmp_path).read_bytes())

    assert b"brain.Event:2" in version
    assert b'"seed": 1' in config
    assert struct.pack("<d", 123.0) in scalars
    assert b"\x12\x04loss" not in scalars
    assert b"\x0a\x04loss\x15" + struct.pack("<f", 0.5) in scalars
    assert b"because" in texts


def test_what_was_written_after_the_last_saved_position_is_written_once(tmp_path: Path) -> None:
    tracker = begun(tmp_path)
    tracker.log(1, {"loss": 1.0}, 1.0)
    saved = dict(tracker.saved)
    tracker.log(2, {"loss": 0.5}, 2.0)
    whole = event_file(tmp_path).read_bytes()
    with event_file(tmp_path).open("ab") as file:
        file.write(b"torn")

    resumed = begun(tmp_path, saved)
    resumed.log(2, {"loss": 0.5}, 2.0)
    resumed.finish(End.SUCCEEDED)

    assert event_file(tmp_path).read_bytes() == whole
    assert steps_of_loss(whole) == [1, 2]


def test_a_file_that_was_deleted_begins_again(tmp_path: Path) -> None:
    tracker = begun(tmp_path)
    tracker.log(1, {"loss": 1.0}, 1.0)
    event_file(tmp_path).unlink()

    begun(tmp_path, dict(tracker.saved)).finish(End.SUCCEEDED)

    assert len(records(event_file(tmp_path).read_bytes())) == 2
