"""An OpenEnv environment that counts its sessions, served beside a test.

It speaks the protocol of the package's server (``core/env_server/http_server.py``): a tool adds to
a total, each step is rewarded with what it added, and a total of 10 ends the episode.
"""

import json
from typing import Any

from aiohttp import WSMsgType, web

from services.contracts.base import JsonObject
from tests.support.threaded_server import ThreadedServer

INTEGER = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}
NOTHING: JsonObject = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "add", "description": "Adds to the total.", "inputSchema": INTEGER},
    *({"name": name, "inputSchema": NOTHING} for name in ("crash", "hang", "refuse", "drop")),
]
ENOUGH = 10


class EnvironmentServer(ThreadedServer):
    """Serves ``/ws``. ``capacity`` bounds the sessions, and ``rewarded`` is False for an
    environment without rewards. Every reset is followed by a ping; ``pongs`` counts the answers."""

    def __init__(self, capacity: int = 10_000, *, rewarded: bool = True) -> None:
        super().__init__()
        self.capacity = capacity
        self.rewarded = rewarded
        self.sessions = 0
        self.opened = 0
        self.most = 0
        self.refused = 0
        self.drops = 0  # connections that are still to be closed at their beginning
        self.resets: list[JsonObject] = []
        self.goodbyes = 0
        self.pongs = 0

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/ws", self._serve), web.get("/elsewhere/ws", self._redirect)]

    async def _redirect(self, _: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/ws")

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        if self.drops:
            self.drops -= 1
            await socket.close()
            return socket
        if self.sessions >= self.capacity:
            self.refused += 1
            await socket.send_json(_error("CAPACITY_REACHED", "no room"))
            await socket.close()
            return socket
        self.sessions += 1
        self.opened += 1
        self.most = max(self.most, self.sessions)
        try:
            await self._play(socket)
        finally:
            self.sessions -= 1
        return socket

    async def _play(self, socket: web.WebSocketResponse) -> None:
        total = 0
        async for message in socket:
            if message.type is WSMsgType.PONG:
                self.pongs += 1
                continue
            if message.type is not WSMsgType.TEXT:
                return
            asked = json.loads(message.data)
            data = asked.get("data") or {}
            match asked["type"]:
                case "close":
                    self.goodbyes += 1
                    return
                case "reset":
                    self.resets.append(data)
                    total = int(data.get("start", 0))
                    await socket.send_json(self._seen({"text": f"total {total}"}, None, total))
                    await socket.ping()
                case "state":
                    await socket.send_json({"type": "state", "data": {"total": total}})
                case "mcp":
                    result = {"jsonrpc": "2.0", "id": data["id"], "result": {"tools": TOOLS}}
                    await socket.send_json({"type": "mcp", "data": result})
                case "step" if data.get("type") == "call_tool":
                    by = int(data["arguments"].get("by", 0))
                    total += by
                    await self._step(socket, data["tool_name"], by, total)
                case "step" if isinstance(data.get("move"), int):
                    total += data["move"]
                    seen = {"total": total, "metadata": {}}
                    await socket.send_json(self._seen(seen, data["move"], total))
                case "step":
                    await socket.send_json(_error("VALIDATION_ERROR", "Invalid message"))

    async def _step(self, socket: web.WebSocketResponse, tool: str, by: int, total: int) -> None:
        observation: JsonObject = {"tool_name": tool, "error": None, "metadata": {}}
        match tool:
            case "add":
                content = [{"type": "text", "text": f"the total is {total}"}]
                observation["result"] = {"content": content, "is_error": False}
                await socket.send_json(self._seen(observation, by, total))
            case "refuse":
                observation["error"] = {"error_type": "execution_error", "message": "not now"}
                await socket.send_json(self._seen(observation, 0, total))
            case "crash":
                await socket.send_json(_error("EXECUTION_ERROR", "it crashed"))
            case "hang":
                return  # no answer, though the connection stays
            case _:
                await socket.close()

    def _seen(self, observation: JsonObject, reward: float | None, total: int) -> JsonObject:
        given = reward if self.rewarded else None
        data: dict[str, Any] = {"observation": observation, "reward": given}
        return {"type": "observation", "data": data | {"done": total >= ENOUGH}}


def _error(code: str, message: str) -> JsonObject:
    return {"type": "error", "data": {"message": message, "code": code}}
