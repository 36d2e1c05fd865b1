"""Work that nobody waits for any more is ended."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from services.contracts.errors import GatewayTimeout

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


class ServiceEnding(GatewayTimeout):
    """The service ends before the work does; its successor may be asked."""

    code = "service_ending"


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work of a request whose body has been read.

    Raises `ClientGone` when the client hangs up, and `ServiceEnding` when the request is
    cancelled, which only an ending server does. The work is cancelled then, and has ended.
    """
    task = asyncio.ensure_future(work)
    hung_up = asyncio.ensure_future(_hung_up(receive))
    try:
        await asyncio.wait((task, hung_up), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    except asyncio.CancelledError:
        if task.cancelled():
            raise
        raise ServiceEnding("the service is ending") from None
    finally:
        hung_up.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
