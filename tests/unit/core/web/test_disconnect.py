"""Work ends with the client that waits for it."""

import asyncio

import pytest
from starlette.types import Message, Receive

from services.core.web.disconnect import ClientGone, ServiceEnding, while_connected


def client_that(hangs_up: asyncio.Event) -> Receive:
    async def receive() -> Message:
        await hangs_up.wait()
        return {"type": "http.disconnect"}

    return receive


def test_the_result_of_the_work_is_returned_and_its_error_raised() -> None:
    async def work(fails: bool) -> str:
        await asyncio.sleep(0)
        if fails:
            raise KeyError("broken")
        return "done"

    async def both() -> None:
        receive = client_that(asyncio.Event())
        assert await while_connected(receive, work(fails=False)) == "done"
        with pytest.raises(KeyError, match="broken"):
            await while_connected(receive, work(fails=True))

    asyncio.run(both())


@pytest.mark.parametrize("way", ["the client", "the service"])
def test_work_has_ended_when_nobody_waits_for_it_any_more(way: str) -> None:
    async def run() -> None:
        hangs_up, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.set()

        waiting = asyncio.ensure_future(while_connected(client_that(hangs_up), work()))
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
