"""Work is cancelled when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from fastapi import Request, Response
from starlette.types import Message, Receive

from services.core.web.disconnect import (
    ClientGone,
    ServiceEnding,
    answer_to,
    while_connected,
)
from tests.support.virtual_time import run_in_virtual_time


def disconnecting_client(hangs_up: asyncio.Event) -> Receive:
    async def receive() -> Message:
        await hangs_up.wait()
        return {"type": "http.disconnect"}

    return receive


def test_returns_the_result_or_raises_the_error_of_the_work() -> None:
    async def work(fails: bool) -> str:
        await asyncio.sleep(0)
        if fails:
            raise KeyError("broken")
        return "done"

    async def both() -> None:
        receive = disconnecting_client(asyncio.Event())
        assert await while_connected(receive, work(fails=False)) == "done"
        with pytest.raises(KeyError, match="broken"):
            await while_connected(receive, work(fails=True))

    asyncio.run(both())


@pytest.mark.parametrize("way", ["the client", "the service"])
def test_abandoned_work_has_ended_when_the_wait_raises(way: str) -> None:
    async def run() -> None:
        hangs_up, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.set()

        waiting = asyncio.ensure_future(while_connected(disconnecting_client(hangs_up), work()))
        await begun.wait()
        if way == "the client":
            hangs_up.set()
            with pytest.raises(ClientGone):
                await waiting
        else:
            waiting.cancel()
            with pytest.raises(ServiceEnding):
                await waiting
        assert ended.is_set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


class Work:
    """Takes ``seconds``, and records whether it was cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.was_cancelled = False

    async def run(self) -> bytes:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return b"{}"


def request(hangs_up_after: float) -> Request:
    async def receive() -> Message:
        await asyncio.sleep(hangs_up_after)
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


def answered(work: Coroutine[Any, Any, Response]) -> Response:
    async def answer_then_await() -> Response:
        response = await work
        await asyncio.sleep(0)  # the task can still await: its cancellation was undone
        return response

    return run_in_virtual_time(answer_then_await())


@pytest.mark.parametrize("seconds", [0.0, 0.01, 5.0])
def test_a_waiting_client_gets_its_answer(seconds: float) -> None:
    response = answered(answer_to(request(100.0), Work(seconds).run()))

    assert (response.status_code, response.body) == (200, b"{}")


@pytest.mark.parametrize("hangs_up_after", [0.0, 0.5, 2.0])
def test_a_disconnect_cancels_the_work_and_is_logged_as_499(hangs_up_after: float) -> None:
    work = Work(5.0)

    response = answered(answer_to(request(hangs_up_after), work.run()))

    assert response.status_code == 499
    assert work.was_cancelled


def test_a_request_cancelled_by_shutdown_is_answered_with_service_ending() -> None:
    async def shut_down() -> None:
        task = asyncio.ensure_future(answer_to(request(100.0), Work(5.0).run()))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(ServiceEnding):
            await task

    run_in_virtual_time(shut_down())
