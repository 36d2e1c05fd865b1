"""The process that downloads a hub model, from a stand-in of a hub on the loopback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.core.artifacts import ModelSource
from services.core.process.runtimes import child_environment
from tests.support.models.hub import Kind, Repository, running
from tests.support.models.slow_hub import SlowHub
from tests.support.waiting import wait_for

NAME = "lab/large"
SIZE = 1 << 20
SHARDS = tuple(f"model-{number:05}-of-00002.safetensors" for number in (1, 2))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files of weights, other weights, and what does not belong to a model."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "config.json").write_text(json.dumps({"model_type": "stub"}))
    index = {"weight_map": dict(zip("ab", SHARDS, strict=True))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for number, name in enumerate(SHARDS):
        (folder / name).write_bytes(bytes([number]) * SIZE)
    (folder / "consolidated.safetensors").write_bytes(b"2" * SIZE)
    return folder


@pytest.fixture
def hub(model: Path) -> Iterator[SlowHub]:
    with running(SlowHub()) as hub:
        hub.add(Repository(Kind.MODEL, NAME, {"main": model}))
        yield hub


class Download:
    """A job that downloads the model."""

    def __init__(self, folder: Path, hub: SlowHub) -> None:
        self.folder = folder / "job"
        self.folder.mkdir()
        source = ModelSource(hub_id=NAME)
        (self.folder / "spec.json").write_text(source.model_dump_json())
        proxies = {"http_proxy": hub.url, "https_proxy": hub.url, "no_proxy": "127.0.0.1"}
        given = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "cache"), **proxies}
        self._environment = child_environment(given)

    def start(self) -> "subprocess.Popen[bytes]":
        """An attempt."""
        command = [sys.executable, "-m", "services.trainer.downloading", str(self.folder)]
        return subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL)

    def reports(self, kind: str) -> list[dict[str, Any]]:
        """What the process reported so far."""
        path = self.folder / "reports.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [each for each in found if each["type"] == kind]

    def result(self) -> dict[str, Any]:
        """The result of its end."""
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_bytes())
        return result

    def reached(self, size: int) -> None:
        """Wait until this many bytes are reported."""
        wait_for(lambda: any(each["bytes"] >= size for each in self.reports("download")), "bytes")


def test_bytes_of_a_slow_download_are_counted_through_a_broken_connection(
    hub: SlowHub, model: Path, tmp_path: Path
) -> None:
    hub.cuts = {SIZE // 4}
    hub.limit = SIZE // 2
    job = Download(tmp_path, hub)
    with job.start() as process:
        job.reached(2 * hub.limit)
        half = job.reports("download")[-1]
        assert not (job.folder / "result.json").exists()
        hub.limit = SIZE
        assert process.wait(60) == 0

    used = [name for name in model.iterdir() if not name.name.startswith("consolidated")]
    total = sum(path.stat().st_size for path in used)
    assert half["total_bytes"] == total
    assert half["bytes"] == total - SIZE
    assert half["bytes_per_second"] > 0
    last = job.reports("download")[-1]
    assert (last["bytes"], last["total_bytes"], last["eta_seconds"]) == (total, total, None)
    assert (SHARDS[0], SIZE // 4) in hub.asked or (SHARDS[1], SIZE // 4) in hub.asked
    assert (job.result()["status"], job.result()["bytes"]) == ("succeeded", total)
    told = [each["message"] for each in job.reports("message")]
    assert told[-1] == f"{NAME}: 100 % of 2 MiB downloaded"


def test_a_killed_download_goes_on_with_the_files_that_it_has_not(
    hub: SlowHub, tmp_path: Path
) -> None:
    hub.limit = SIZE
    hub.cuts = set()
    job = Download(tmp_path, hub)
    blobs = tmp_path / "cache" / "hub" / "models--lab--large" / "blobs"

    def is_here() -> bool:
        sizes = [each.stat().st_size for each in blobs.glob("*[!e]")]
        return SIZE in sizes

    hub.stalled = SHARDS[1]
    with job.start() as process:
        wait_for(is_here, "the first file")
        process.kill()
    begun = len(hub.asked)
    hub.stalled = None
    with job.start() as process:
        assert process.wait(60) == 0

    assert job.result()["status"] == "succeeded"
    again = {name for name, _ in hub.asked[begun:]}
    assert SHARDS[1] in again
    assert SHARDS[0] not in again


def test_a_model_that_the_hub_has_not_fails_the_download_and_is_named(
    hub: SlowHub, tmp_path: Path
) -> None:
    job = Download(tmp_path, hub)
    (job.folder / "spec.json").write_text(ModelSource(hub_id="lab/none").model_dump_json())
    with job.start() as process:
        assert process.wait(60) == 1

    error = job.result()["error"]
    assert (error["code"], error["param"]) == ("model_load_failed", "model")
    assert "has no model 'lab/none'" in error["message"]
