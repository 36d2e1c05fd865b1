"""A server that plays the sandbox's scripts as a test says."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.support.threaded_server import ThreadedServer

Json = dict[str, Any]

RUNNING: Json = {"state": "running", "seconds": 1.0}
LONG: Json = {"state": "running", "seconds": 3600.0}
ENDED: Json = {
    "state": "ended",
    "seconds": 5.0,
    "result": {"status": "Finished", "return_code": 0},
    "files": {"data.json": 2},
}


class ScriptedScripts(ThreadedServer):
    """Serves /v1/scripts on a free port until the block ends.

    ``view`` says how a script stands, by its number in order of starts, from 1; None: it is not
    known. ``refusal`` is the status and message for starts, if they are refused.
    """

    def __init__(self, view: Callable[[int], Json | None]) -> None:
        super().__init__()
        self.view = view
        self.refusal: tuple[int, str] | None = None
        self.data = b"[]"
        self.started: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[Json] = []

    @property
    def deleted(self) -> list[str]:
        """The ids of deleted scripts."""
        return [script_id for method, script_id in self.requests if method == "DELETE"]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.route("*", "/v1/scripts/{id}", self._answer),
            web.get("/v1/scripts/{id}/files/{path}", self._file),
        ]

    async def _answer(self, request: web.Request) -> web.Response:
        script_id = request.match_info["id"]
        self.requests.append((request.method, script_id))
        self.headers.append(dict(request.headers))
        if request.method == "PUT":
            if self.refusal is not None:
                return _error(*self.refusal)
            self.started.setdefault(script_id, await request.json())
        number = [*self.started].index(script_id) + 1 if script_id in self.started else 0
        view = RUNNING if request.method == "PUT" else self.view(number)
        if view is None:
            return _error(404, "no such script")
        return web.json_response({"id": script_id, **view})

    async def _file(self, _request: web.Request) -> web.Response:
        return web.Response(body=self.data)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "any"}}, status=status)
