"""Requests of a drill, and checks of their responses."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

Answer = dict[str, Any]
Check = Callable[[Answer], bool]

ATTEMPTS = 10


@dataclass(frozen=True)
class Run:
    """A request, the check of its response, and its share among all requests.

    ``gone_after`` is when the client disconnects, in seconds; there is no response then.
    """

    name: str
    weight: int
    body: Mapping[str, Any]
    check: Check
    path: str = "/run_code"
    gone_after: float | None = None
    status: int = 200

    async def execute(self, client: aiohttp.ClientSession) -> str | None:
        """Send the request; return what is wrong with the response."""
        try:
            async with asyncio.timeout(self.gone_after):
                status, text = await post(client, self.path, self.body)
        except TimeoutError:
            return None if self.gone_after is not None else "no answer"
        if self.gone_after is not None:
            return f"answered before the client went away: {text[:300]}"
        if status != self.status or not self.check(json.loads(text)):
            return f"{status} {text[:1000]}"
        return None


async def post(
    client: aiohttp.ClientSession, path: str, body: Mapping[str, Any]
) -> tuple[int, str]:
    """Send a request, and retry while the service is overloaded."""
    for _ in range(ATTEMPTS):
        async with client.post(path, json=body) as response:
            text = await response.text()
        if response.status != 504:
            break
        await asyncio.sleep(float(response.headers["Retry-After"]))
    return response.status, text


def success(stdout: str) -> Check:
    """The program exited with 0 and printed this."""

    def check(answer: Answer) -> bool:
        return answer["status"] == "Success" and bool(answer["run_result"]["stdout"] == stdout)

    return check


def ended_with(*codes: int) -> Check:
    """It failed with one of these exit codes."""

    def check(answer: Answer) -> bool:
        return answer["status"] == "Failed" and answer["run_result"]["return_code"] in codes

    return check


def timed_out(answer: Answer) -> bool:
    """It timed out."""
    return bool(answer["run_result"]["status"] == "TimeLimitExceeded")
