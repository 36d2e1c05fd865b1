"""Sessions of every kind: closed, abandoned, and with dying kernels."""

import json
from dataclasses import dataclass

import aiohttp

from tests.integration.sandbox.drill import post

IDLE_SECONDS = 30.0


@dataclass(frozen=True)
class SessionUse:
    """Cells to run in a session, each with the status that it must get."""

    name: str
    weight: int
    cells: tuple[tuple[str, str], ...]
    delete: bool = True

    async def execute(self, client: aiohttp.ClientSession) -> str | None:
        """Use a session; return what was wrong with an answer."""
        body = {"idle_timeout": IDLE_SECONDS if not self.delete else 60}
        status, text = await post(client, "/v1/sessions", body)
        if status == 503:  # there are as many as there may be
            return None
        path = f"/v1/sessions/{json.loads(text)['id']}"
        for code, expected in self.cells:
            status, text = await post(client, f"{path}/execute", {"code": code})
            if json.loads(text).get("status") != expected:
                return f"{status} {text[:1000]}"
        if self.delete:
            async with client.delete(path) as response:
                if response.status != 200:
                    return f"{response.status} {(await response.text())[:1000]}"
        return None


SESSIONS = [
    SessionUse("session", 1, (("a = [1]", "ok"), ("a.append(2); a", "ok"), ("1/0", "error"))),
    SessionUse("abandoned session", 1, (("import threading", "ok"),), delete=False),
    SessionUse("dying kernel", 1, (("import os\nos._exit(1)", "kernel_died"), ("1", "ok"))),
]
