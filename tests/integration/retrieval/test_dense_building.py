"""Builds with the real encoder, and SIGKILL of every process involved."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.core.process.reporter import RESULT
from tests.support.runtimes import installed_runtime
from tests.support.search.index_building import IndexFolder, IndexOrder, rows
from tests.support.waiting import wait_for

pytestmark = pytest.mark.runtime

ENCODER_CHILD = "services.retrieval.encoder.child"
PASSAGES = 6_000
DEADLINE = 300.0


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    installed_runtime("encoder")
    return IndexFolder(tmp_path)


def encoders(process: psutil.Process) -> list[psutil.Process]:
    """The running encoders of a process."""
    found = []
    for child in process.children(recursive=True):
        try:
            if ENCODER_CHILD in child.cmdline():
                found.append(child)
        except psutil.Error:  # it just exited
            continue
    return found


def encoded(order: IndexOrder) -> int:
    """The number of encoded passages as reported by the builder."""
    path = order.folder / "reports.jsonl"
    if not path.exists() or "encoding" not in {each["phase"] for each in order.reports("phase")}:
        return 0
    return int(order.reports("progress")[-1]["step"])


def test_a_build_survives_an_encoder_crash(folder: IndexFolder) -> None:
    order = folder.order("library", folder.corpus("c.jsonl", rows(PASSAGES)), IndexMode.DENSE)
    with order.process() as process:
        builder = psutil.Process(process.pid)
        wait_for(lambda: encoded(order) > 0, "something is encoded", DEADLINE)
        for encoder in encoders(builder):
            with suppress(psutil.NoSuchProcess):  # its watchdog may end it first
                encoder.kill()
        assert process.wait(DEADLINE) == 0

    assert order.built().metrics.documents == PASSAGES
    summary = folder.store.summary("library")
    assert (summary.mode, summary.encoder) == (IndexMode.DENSE, "minilm")


def test_a_killed_build_keeps_its_vectors_and_leaves_no_encoder(folder: IndexFolder) -> None:
    corpus = folder.corpus("c.jsonl", rows(PASSAGES))
    order = folder.order("library", corpus, IndexMode.HYBRID)
    with order.process() as process:
        wait_for(lambda: encoded(order) > 0, "something is encoded", DEADLINE)
        running = encoders(psutil.Process(process.pid))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert running
    wait_for(lambda: not any(each.is_running() for each in running), "the encoder has ended")
    assert not (order.folder / RESULT).exists()
    before = len(order.reports("progress"))

    order.run()

    assert order.built().metrics.documents == PASSAGES
    steps = [report["step"] for report in order.reports("progress")[before:]]
    assert min(steps) > 0
    assert folder.store.summary("library").documents == PASSAGES
