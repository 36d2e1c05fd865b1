"""Sessions of every kind: ended in order, abandoned, and with a kernel that dies."""

from dataclasses import dataclass

import aiohttp

IDLE_SECONDS = 2.0


@dataclass(frozen=True)
class SessionUse:
    """Cells to run in a session, each with the status that it must get."""

    name: str
    weight: int
    cells: tuple[tuple[str, str], ...]
    delete: bool = True

    async def carry_out(self, client: aiohttp.ClientSession) -> str | None:
        """Use a session; return what was wrong with an answer."""
        body = {"idle_timeout": IDLE_SECONDS if not self.delete else 60}
        async with client.post("/v1/sessions", json=body) as response:
            if response.status == 503:  # as many as there may be
                return None
            session = await response.json()
        path = f"/v1/sessions/{session['id']}"
        for code, status in self.cells:
            async with client.post(f"{path}/execute", json={"code": code}) as response:
                if (await response.json()).get("status") != status:
                    return f"{response.status} {(await response.text())[:1000]}"
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
