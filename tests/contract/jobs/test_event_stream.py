"""Following a job's events as server-sent events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent, connect_sse

from tests.support.gateway import GatewayClient
from tests.support.processes import running_gateway
from tests.support.waiting import wait_for

DONE = "[DONE]"


@pytest.fixture(scope="session")
def jobs(url: str, worker: None, home: Path) -> Iterator[GatewayClient]:
    with GatewayClient(url, home) as client:
        yield client


@contextmanager
def following(
    http: httpx.Client, job_id: str, *, behind: str | None = None, **query: Any
) -> Iterator[EventSource]:
    headers = {"Last-Event-ID": behind} if behind else {}
    path = f"/v1/fine_tuning/jobs/{job_id}/events"
    with connect_sse(
        http, "GET", path, params={"stream": True, **query}, headers=headers
    ) as source:
        yield source


def ids(events: list[ServerSentEvent]) -> list[str]:
    return [event.id for event in events if event.data != DONE]


def test_the_stream_sends_every_event_once_and_ends(jobs: GatewayClient) -> None:
    job_id = jobs.submit("succeed")

    with following(jobs.http, job_id) as source:
        assert source.response.headers["content-type"].startswith("text/event-stream")
        assert source.response.headers["cache-control"] == "no-store"
        events = list(source.iter_sse())  # ends when the job ends

    assert events[-1].data == DONE
    received = [json.loads(event.data) for event in events[:-1]]
    assert received == jobs.events(job_id)
    assert ids(events) == [event["id"] for event in received]
    assert received[-1]["message"] == "Succeeded"


def test_a_reconnecting_reader_neither_misses_nor_repeats_events(jobs: GatewayClient) -> None:
    job_id = jobs.submit("succeed")
    seen: list[str] = []
    last = None

    while True:  # disconnects after every two events
        with following(jobs.http, job_id, behind=last) as source:
            events = [event for event, _ in zip(source.iter_sse(), range(2), strict=False)]
        seen += ids(events)
        if events[-1].data == DONE:
            break
        last = seen[-1]

    assert seen == [event["id"] for event in jobs.events(job_id)]


def test_the_stream_of_a_finished_job_ends_immediately(jobs: GatewayClient) -> None:
    job_id = jobs.submit("succeed")
    jobs.wait_until(job_id, "succeeded")
    last = jobs.events(job_id)[-1]["id"]

    with following(jobs.http, job_id, behind=last) as source:
        events = list(source.iter_sse())

    assert [event.data for event in events] == [DONE]


def test_after_replaces_the_last_event_id_header(jobs: GatewayClient) -> None:
    job_id = jobs.submit("fail")
    jobs.wait_until(job_id, "failed")
    known = jobs.events(job_id)

    with following(jobs.http, job_id, after=known[1]["id"]) as source:
        events = list(source.iter_sse())

    assert ids(events) == [event["id"] for event in known[2:]]


def test_events_arrive_while_the_job_runs(jobs: GatewayClient) -> None:
    job_id = jobs.submit("forever")

    with following(jobs.http, job_id) as source:
        events = source.iter_sse()
        seen = next(json.loads(e.data) for e in events if json.loads(e.data)["type"] == "metrics")
        assert seen["data"]["step"] == 1
        assert jobs.job(job_id)["status"] == "running"
        jobs.cancel(job_id)
        rest = [event.data for event in events]

    assert json.loads(rest[-2])["message"] == "Cancelled"
    assert rest[-1] == DONE


@pytest.mark.parametrize("kind", ["jobs", "fine_tuning/jobs", "evaluations"])
def test_an_unknown_job_is_not_found(http: httpx.Client, kind: str) -> None:
    answer = http.get(f"/v1/{kind}/nobody/events", params={"stream": True})

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "job_not_found"


def test_a_job_of_another_kind_is_not_found(jobs: GatewayClient) -> None:
    job_id = jobs.submit("succeed")

    assert jobs.http.get(f"/v1/evaluations/{job_id}/events").status_code == 404
    assert jobs.http.get(f"/v1/jobs/{job_id}/events").status_code == 200


def test_an_event_of_another_job_is_rejected_as_a_cursor(jobs: GatewayClient) -> None:
    first, second = jobs.submit("succeed"), jobs.submit("succeed")
    foreign = jobs.events(first)[0]["id"]

    with following(jobs.http, second, behind=foreign) as source:
        assert source.response.status_code == 400


@pytest.fixture
def single_stream_gateway(tmp_path: Path) -> Iterator[GatewayClient]:
    """A gateway that allows one stream, without workers."""
    home = tmp_path / "home"
    settings = {"TEMPER_HOME": str(home), "TEMPER_MAX_EVENT_STREAMS": "1"}
    with (
        running_gateway(settings, tmp_path / "gateway.log") as url,
        GatewayClient(url, home) as client,
    ):
        yield client


@pytest.mark.drill
def test_streams_over_the_limit_are_rejected_until_a_reader_disconnects(
    single_stream_gateway: GatewayClient,
) -> None:
    job_id = single_stream_gateway.submit("succeed")

    with following(single_stream_gateway.http, job_id) as first:
        events = first.iter_sse()
        assert next(events).id
        with following(single_stream_gateway.http, job_id) as second:
            assert second.response.status_code == 503
            assert json.loads(second.response.read())["error"]["code"] == "too_many_streams"
            assert int(second.response.headers["retry-after"]) > 0
        # Other routes still work.
        assert single_stream_gateway.job(job_id)["status"] == "validating_files"

    def slot_is_free() -> bool:
        with following(single_stream_gateway.http, job_id) as source:
            return source.response.status_code == 200

    assert wait_for(slot_is_free, "the reader's place is free")
