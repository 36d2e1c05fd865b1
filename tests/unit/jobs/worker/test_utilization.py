"""The log of what a job's processes use."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from services.jobs.worker import utilization
from services.jobs.worker.utilization import UTILIZATION, UtilizationLog
from tests.unit.jobs.fake_nvml import GIB, FakeNvml


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def samples(folder: Path) -> list[dict[str, Any]]:
    path = folder / UTILIZATION
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_sample_tells_the_use_of_processor_memory_and_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeNvml({"GPU-a": (20 * GIB, 80 * GIB)}, percent={"GPU-a": 97}).install(monkeypatch)
    monkeypatch.setattr(utilization, "tree_processes", lambda tree: [os.getpid()])
    clock = Clock()
    log = UtilizationLog(tmp_path, "tree", ["GPU-a"], clock)
    log.sample_if_due()
    assert samples(tmp_path) == []  # not due yet

    clock.now = 5.0
    log.sample_if_due()
    (sample,) = samples(tmp_path)
    assert sample["cores"] > 0.0
    assert sample["memory_bytes"] > 1 << 20
    assert sample["busiest"] is not None
    assert sample["gpus"] == [
        {"id": "GPU-a", "percent": 97, "used": 20 * GIB, "total": 80 * GIB},
    ]


def test_the_log_of_a_long_job_is_thinned_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(utilization, "MAX_SAMPLES", 4)
    monkeypatch.setattr(utilization, "tree_processes", lambda tree: [])
    clock = Clock()
    log = UtilizationLog(tmp_path, "tree", [], clock)
    for _ in range(30):
        clock.now += utilization.SAMPLE_SECONDS
        log.sample_if_due()

    assert 2 <= len(samples(tmp_path)) <= 4
