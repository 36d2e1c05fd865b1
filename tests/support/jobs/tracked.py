"""What trackers kept of a job, as JSON: run with the Python of the tracking runtime.

python -m tests.support.jobs.tracked TRACKER JOB_FOLDER DATA_FOLDER JOB_ID
"""

import json
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Points = list[tuple[int, float]]


def tensorboard(job: Path, _data: Path, _id: str) -> dict[str, Any]:
    """Read the event files with TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(job / "tensorboard")).Reload()
    scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
    texts = [
        text.decode()
        for tag in events.Tags()["tensors"]
        for event in events.Tensors(tag)
        for text in event.tensor_proto.string_val
    ]
    points = {tag: [(each.step, each.value) for each in found] for tag, found in scalars.items()}
    return {"points": points, "text": "\n".join(texts)}


def wandb(_job: Path, data: Path, job_id: str) -> dict[str, Any]:
    """Read the offline files of all processes of a run."""
    from wandb.proto.wandb_internal_pb2 import Record

    points: dict[str, Points] = {}
    states, names = [], set()
    for path in sorted(data.glob(f"wandb/wandb/offline-run-*/run-{job_id}.wandb")):
        for content in _log_records(path):
            record = Record.FromString(content)
            names |= {(record.run.project, record.run.display_name)} if record.run.run_id else set()
            states += [record.exit.exit_code] if record.HasField("exit") else []
            row = {
                (item.key or ".".join(item.nested_key)): json.loads(item.value_json)
                for item in record.history.item
            }
            for name, value in row.items():
                points.setdefault(name, []).append((row["step"], value))
    return {"points": points, "states": states, "names": sorted(names)}


def trackio(_job: Path, data: Path, job_id: str) -> dict[str, Any]:
    """Read the local database."""
    from trackio.sqlite_storage import SQLiteStorage

    points: dict[str, Points] = {}
    for row in SQLiteStorage.get_logs("temper", job_id):
        for name, value in row.items():
            points.setdefault(name, []).append((row["step"], value))
    return {"points": points}


def mlflow(_job: Path, data: Path, job_id: str) -> dict[str, Any]:
    """Read the local database."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{data / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("temper")
    runs = client.search_runs([experiment.experiment_id], f"tags.`temper.job` = '{job_id}'")
    (run,) = runs
    points = {
        name: [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    }
    return {"points": points, "states": [run.info.status], "text": json.dumps(run.data.params)}


def swanlab(_job: Path, data: Path, _id: str) -> dict[str, Any]:
    """Read the offline files of all processes of a run: records of a metric's name, step and
    value, in the order of their fields."""
    scalar = re.compile(rb"\x0a\x04loss\x10(.)\x18\x01.*?\x2a\x09\x09(.{8})", re.DOTALL)
    losses: Points = []
    for path in sorted(data.glob("swanlab/run-*/*.swanlab")):
        for content in _log_records(path):
            if found := scalar.search(content):
                losses.append((found[1][0], struct.unpack("<d", found[2])[0]))
    return {"points": {"loss": losses}}


def _log_records(path: Path) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format, after a header of 7 bytes."""
    data, position, record = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        record += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


if __name__ == "__main__":
    name, job, data, job_id = sys.argv[1:]
    print("\n" + json.dumps(globals()[name](Path(job), Path(data), job_id)))
