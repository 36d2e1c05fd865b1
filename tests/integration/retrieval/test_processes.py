"""Several processes behind one port: they share indexes, are replaced, and end together."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage
from tests.support.search.service import Retrieval, running_retrieval
from tests.support.waiting import wait_for

PASSAGES = [passage("lists", "A list is sorted in place."), passage("files", "A file is closed.")]
SERVERS = 2


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Retrieval]:
    """A service of two processes."""
    build_index(IndexStore(tmp_path / "indexes"), "main", PASSAGES)
    with running_retrieval(
        tmp_path, tmp_path / "indexes", "main", TEMPER_RETRIEVAL_PROCESSES=str(SERVERS)
    ) as service:
        yield service


def servers(service: Retrieval) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(service.process.pid).children():
        try:
            if "services.retrieval.server.server" in child.cmdline():
                found.append(child)
        except psutil.Error:  # it exited and may not have been reaped yet
            continue
    return found


def ask(service: Retrieval, query: str = "list") -> list[str] | None:
    """Ids found by a request on a new connection; None when it breaks."""
    try:
        answer = httpx.post(f"{service.url}/retrieve", json={"queries": [query]}, timeout=60)
    except httpx.TransportError:
        return None
    return [hit["id"] for hit in answer.json()["result"][0]] if answer.is_success else None


def counted(service: Retrieval) -> dict[str, float]:
    """Requests answered by each process, as reported by any of them."""
    text = service.http.get("/metrics").text
    pattern = r'temper_http_requests_total\{.*process="(\d)",route="/retrieve".*\} (\S+)'
    return {process: float(value) for process, value in re.findall(pattern, text)}


def test_all_processes_answer_and_share_one_metrics_page(service: Retrieval) -> None:
    asked = 0

    def all_have_answered() -> bool:
        nonlocal asked
        assert ask(service) == ["lists"]
        asked += 1
        return len(counted(service)) == SERVERS

    wait_for(all_have_answered, "each process has answered")
    # A process that does not answer its peer immediately is left out.
    wait_for(lambda: sum(counted(service).values()) == asked, "all answers are counted")


def test_a_change_through_one_process_is_seen_by_the_others(service: Retrieval) -> None:
    for number in range(10):
        rows = [{"id": "x", "contents": f"word{number} of a tuple"}]
        answer = service.http.post("/v1/indexes/main/documents", json={"documents": rows})
        assert answer.status_code == 200, answer.text
        assert {tuple(ask(service, f"word{number}") or ()) for _ in range(6)} == {("x",)}


def test_a_dead_process_is_replaced(service: Retrieval) -> None:
    former = servers(service)

    former[0].kill()

    wait_for(lambda: ask(service) == ["lists"], "it answers")
    wait_for(
        lambda: len(servers(service)) == SERVERS and former[0] not in servers(service),
        "another one runs in its place",
    )
    wait_for(lambda: all(ask(service) == ["lists"] for _ in range(8)), "all of them answer")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_service(service: Retrieval, number: signal.Signals) -> None:
    former = servers(service)
    command = former[0].cmdline()
    shared = Path(command[command.index("--folder") + 1])
    assert shared.is_dir()

    os.kill(service.process.pid, number)

    psutil.wait_procs(former, timeout=120)
    assert not [process for process in former if process.is_running()]
    wait_for(lambda: not shared.exists(), "nothing is left")
