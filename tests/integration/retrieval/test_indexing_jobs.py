"""Indexing jobs on real processes (gateway, worker, watchdog, builder) and their kills."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from services.contracts.retrieval.index_messages import MODULE
from tests.integration.conftest import LEASE_SECONDS, SHORT_LEASE_SECONDS, Platform
from tests.support.processes import Process
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.search.index_building import IndexFolder, rows
from tests.support.waiting import wait_for

ROUTE = "/v1/indexing/jobs"
LONG = 100_000
"""Rows of a corpus that is committed in several parts."""

one_store = pytest.mark.parametrize("platform", ["sqlite+files"], indirect=True)
both_stores = pytest.mark.parametrize(
    "platform",
    ["sqlite+files", pytest.param("postgres+redis", marks=pytest.mark.variant)],
    indirect=True,
)


def indexes(platform: Platform) -> IndexFolder:
    """The indexes of the platform's home."""
    return IndexFolder(platform.folder / "home")


def start_indexer(platform: Platform, lease_seconds: float = LEASE_SECONDS) -> Process:
    return platform.start_worker("services.retrieval.worker", lease_seconds=lease_seconds)


def submit(platform: Platform, corpus: Sequence[Any], **fields: Any) -> str:
    """Upload a corpus and queue a job that builds the index ``library`` from it."""
    http = platform.client.http
    content = "".join(json.dumps(row) + "\n" for row in corpus).encode()
    upload = {"file": ("corpus.jsonl", content)}
    stored = http.post("/v1/files", files=upload, data={"purpose": "user_data"}).json()
    answer = http.post(ROUTE, json={"index": "library", "file": stored["id"], **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def built(platform: Platform, corpus: Sequence[Any]) -> None:
    job_id = submit(platform, corpus)
    platform.client.wait_until(job_id, "succeeded")


def builder_of(platform: Platform, job_id: str) -> psutil.Process:
    """The process that builds a job's index, once it has committed documents."""
    building = indexes(platform).indexes / "library" / "building"
    places = building / "passages" / "places"
    wait_for(lambda: places.exists() and places.stat().st_size > 0, "something is committed")
    folder = str(platform.folder / "home" / "jobs" / job_id)
    (process,) = [
        process
        for process in psutil.process_iter()
        if MODULE in (command := command_of(process))
        and folder in command
        and ppid_is_watchdog(process)
    ]
    return process


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def ppid_is_watchdog(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
    except psutil.Error:  # it just exited
        return False
    return parent is not None and any(word.endswith("watchdog.py") for word in command_of(parent))


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@one_store
def test_a_job_builds_an_index_from_an_uploaded_corpus(platform: Platform) -> None:
    start_indexer(platform)
    job_id = submit(platform, rows(1000), metadata={"run": "1"})

    platform.client.wait_until(job_id, "succeeded")

    job = platform.client.http.get(f"{ROUTE}/{job_id}").json()
    assert job["metrics"]["documents"] == 1000
    assert job["metrics"]["bytes_on_disk"] > 0
    assert job["progress"]["percent"] == 100.0
    folder = indexes(platform)
    assert job["version"] == folder.store.version("library")
    assert folder.ids("library") == [f"passage-{number}" for number in range(1000)]
    said = [event["message"] for event in platform.client.events(job_id)]
    assert "corpus.jsonl: 1,000 passages" in said
    assert said[-1] == "Succeeded"


@one_store
@pytest.mark.runtime
def test_a_job_builds_an_index_with_vectors(platform: Platform) -> None:
    installed_runtime("encoder")
    platform.settings["TEMPER_RUNTIMES"] = str(FOLDER)
    start_indexer(platform)
    job_id = submit(platform, rows(50), mode="hybrid", dense="flat")

    platform.client.wait_until(job_id, "succeeded", 300)

    summary = indexes(platform).store.summary("library")
    assert (summary.documents, summary.mode, summary.encoder) == (50, "hybrid", "minilm")
    phases = [
        event["data"]["phase"]
        for event in platform.client.events(job_id)
        if (event["data"] or {}).get("phase")
    ]
    assert phases == [
        "validating_files",
        "starting_encoder",
        "reading",
        "encoding",
        "arranging_vectors",
    ]


@one_store
def test_an_invalid_corpus_fails_before_queueing_and_changes_nothing(platform: Platform) -> None:
    start_indexer(platform)
    built(platform, rows(10))
    corpus = [*rows(5), {"id": "x"}, {"id": "passage-3", "text": "again"}]

    job = platform.client.wait_until(submit(platform, corpus), "failed")

    assert (job["attempt"], job["error"]["code"]) == (0, "invalid_corpus")
    assert job["error"]["param"] == "file"
    first, second = (event["message"] for event in platform.client.events(job["id"])[-3:-1])
    assert first == "corpus.jsonl: row 6: contents is missing (or text, in its place)"
    assert second == "corpus.jsonl: row 7: id 'passage-3' is also that of row 4"
    assert len(indexes(platform).ids("library")) == 10


@both_stores
def test_a_build_survives_sigkill_of_its_worker_and_child(platform: Platform) -> None:
    worker = start_indexer(platform, SHORT_LEASE_SECONDS)
    built(platform, rows(10, "old"))
    job_id = submit(platform, rows(LONG))
    builder = builder_of(platform, job_id)
    attempt = platform.client.job(job_id)["attempt"]
    watchdog = builder.ppid()

    os.kill(watchdog, signal.SIGSTOP)  # or it might end the builder and itself first
    for pid in (worker.pid, builder.pid, watchdog):
        os.kill(pid, signal.SIGKILL)

    assert indexes(platform).store.summary("library").documents == 10
    start_indexer(platform)
    job = platform.client.wait_until(job_id, "succeeded", 240)
    assert job["attempt"] == attempt + 1
    assert indexes(platform).store.summary("library").documents == LONG
    said = [event["message"] for event in platform.client.events(job_id)]
    assert 1 <= said.count("resuming an earlier attempt") <= attempt


@one_store
def test_a_cancelled_build_leaves_the_index_unchanged(platform: Platform) -> None:
    start_indexer(platform)
    built(platform, rows(10, "old"))
    job_id = submit(platform, rows(LONG))
    builder = builder_of(platform, job_id)

    platform.client.cancel(job_id)
    platform.client.wait_until(job_id, "cancelled")

    assert gone(builder)
    assert indexes(platform).store.summary("library").documents == 10
    built(platform, rows(20, "next"))
    assert [path.name for path in unfinished_builds(platform)] == []


def unfinished_builds(platform: Platform) -> list[Path]:
    return list((indexes(platform).indexes / "library").glob("building*"))
