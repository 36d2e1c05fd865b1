"""Work of a client that went away is ended; everybody else gets their answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from fastapi import Request, Response
from starlette.types import Message

from services.core.web.disconnect import ServiceEnding
from services.retrieval.answers import answer_to
from tests.support.virtual_time import run_in_virtual_time


class Work:
    """Work that takes so many seconds."""

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
    async def and_on() -> Response:
        response = await work
        await asyncio.sleep(0)  # the task that asked is as good as before
        return response

    return run_in_virtual_time(and_on())


@pytest.mark.parametrize("seconds", [0.0, 0.01, 5.0])
def test_a_client_that_waits_gets_its_answer(seconds: float) -> None:
    response = answered(answer_to(request(100.0), Work(seconds).run()))

    assert (response.status_code, response.body) == (200, b"{}")


@pytest.mark.parametrize("hangs_up_after", [0.0, 0.5, 2.0])
def test_work_ends_when_its_client_hangs_up(hangs_up_after: float) -> None:
    work = Work(5.0)

    response = answered(answer_to(request(hangs_up_after), work.run()))

    assert response.status_code == 499
    assert work.was_cancelled


def test_a_request_that_the_server_gives_up_is_told_so() -> None:
    async def given_up() -> None:
        task = asyncio.ensure_future(answer_to(request(100.0), Work(5.0).run()))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(ServiceEnding):
            await task

    run_in_virtual_time(given_up())
