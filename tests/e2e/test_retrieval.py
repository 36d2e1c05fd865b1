"""Searching through the gateway of a local stack, and adding indexes while it runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.contracts.data.files import FilePurpose
from services.contracts.jobs import JobStatus
from services.contracts.retrieval.indexes import CreateIndexingJob
from temper import Temper
from temper.stack.services import Service
from temper.stack.state import StackState
from tests.support.runtimes import FOLDER
from tests.support.stack import DEADLINE, Home, home_in
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with home_in(tmp_path_factory.mktemp("stack") / "home") as home:
        home.variables["TEMPER_RUNTIMES"] = str(FOLDER)
        yield home


@pytest.fixture(scope="module")
def stack(home: Home) -> StackState:
    """A stack without an index."""
    _, state = home.up()
    return state


@pytest.fixture(scope="module")
def search(stack: StackState) -> Iterator[httpx.Client]:
    """The retrieval service itself."""
    (url,) = [service.url for service in stack.services if service.name is Service.RETRIEVAL]
    assert url is not None
    with httpx.Client(base_url=url, timeout=DEADLINE) as client:
        yield client


def titles(answer: httpx.Response) -> list[str]:
    (hits,) = answer.json()["results"]
    return [hit["document"]["title"] for hit in hits]


def test_the_gateway_answers_from_the_default_index(stack: StackState) -> None:
    """The service answers 503 until its index is built."""

    def asked() -> Any | None:
        body = {"queries": ["serialize object to JSON", "the with statement"], "topk": 2}
        answer = httpx.post(f"{stack.url}/retrieve", json=body, timeout=DEADLINE)
        assert answer.status_code in (200, 503), answer.text
        return answer.json()["result"] if answer.status_code == 200 else None

    json_hits, with_hits = wait_for(asked, "the default index answers", DEADLINE)

    assert len(json_hits) == len(with_hits) == 2
    assert "json" in json_hits[0]["title"]
    assert "with" in {hit["title"] for hit in with_hits}


def test_a_job_replaces_an_index_while_it_is_served(
    stack: StackState, search: httpx.Client, tmp_path: Path
) -> None:
    make_index(stack, tmp_path, {"title": "Nile", "text": "A river of Africa."})
    assert found(search, "river") == ["Nile"]

    make_index(stack, tmp_path, {"title": "Danube", "text": "A river of Europe."})

    wait_for(lambda: found(search, "river") == ["Danube"], "the new version answers")


def test_passages_added_by_command_are_found(
    home: Home, stack: StackState, search: httpx.Client, tmp_path: Path
) -> None:
    make_index(stack, tmp_path, {"title": "Rhine", "text": "A river of Europe."})
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "a", "title": "Amazon", "text": "A river of America."}))

    run = home.run("index", "add", "rivers", "--corpus", str(more))

    assert run.returncode == 0, run.stderr
    wait_for(lambda: set(found(search, "river")) == {"Rhine", "Amazon"}, "both are found")


def make_index(stack: StackState, folder: Path, row: dict[str, str]) -> None:
    corpus = folder / "rivers.jsonl"
    corpus.write_text(json.dumps(row))
    with Temper(stack.url) as client:
        file = client.files.upload(corpus, FilePurpose.USER_DATA)
        job = client.indexing.create(CreateIndexingJob(index="rivers", file=file.id))
        done = client.jobs.wait(job.id, timeout=DEADLINE)
        assert done.status is JobStatus.SUCCEEDED, done
        assert client.indexing.get(job.id).metrics is not None


def found(search: httpx.Client, query: str) -> list[str]:
    answer = search.post("/v1/search", json={"query": query, "index": "rivers"})
    assert answer.status_code == 200, answer.text
    return titles(answer)
