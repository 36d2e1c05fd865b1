"""A minimal client of a session."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from tests.support.waiting import wait_for

Answer = dict[str, Any]
CREATE_SECONDS = 120.0
"""Longer than the service's own timeout for opening a session."""


class SessionClient:
    """A session of a running service."""

    def __init__(self, http: httpx.Client, session_id: str) -> None:
        self.http = http
        self.id = session_id
        self.path = f"/v1/sessions/{session_id}"

    @classmethod
    def create(cls, http: httpx.Client, **fields: object) -> "SessionClient":
        answer = http.post("/v1/sessions", json=fields, timeout=CREATE_SECONDS)
        assert answer.status_code == 200, answer.text
        return cls(http, answer.json()["id"])

    @classmethod
    def create_first(cls, http: httpx.Client) -> "SessionClient":
        """The first one of a service, which waits until what kernels need has been imported.

        On a busy machine that can take longer than the service lets anyone wait.
        """

        def try_to_create() -> SessionClient | None:
            answer = http.post("/v1/sessions", json={}, timeout=CREATE_SECONDS)
            return cls(http, answer.json()["id"]) if answer.status_code == 200 else None

        return wait_for(try_to_create, "a session can be created", 240.0)

    def execute(self, code: str, **fields: object) -> Answer:
        """The result of a cell; the request must be valid."""
        answer = self.http.post(f"{self.path}/execute", json={"code": code, **fields})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def value(self, code: str, **fields: object) -> str:
        """The last value of a cell that must succeed, as text."""
        answer = self.execute(code, **fields)
        assert answer["status"] == "ok", answer
        return str(answer["display"][-1]["text/plain"])

    def printed(self, code: str, **fields: object) -> str:
        """The output of a cell that must succeed."""
        answer = self.execute(code, **fields)
        assert answer["status"] == "ok", answer
        return str(answer["stdout"])

    def stream(self, code: str, **fields: object) -> Iterator[tuple[str, Answer]]:
        """The events of a cell, as they come."""
        body = {"code": code, **fields}
        with self.http.stream("POST", f"{self.path}/execute/stream", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            name = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    def show(self) -> Answer:
        answer = self.http.get(self.path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def upload(self, path: str, content: bytes) -> httpx.Response:
        return self.http.put(f"{self.path}/files/{path}", content=content)

    def download(self, path: str) -> httpx.Response:
        return self.http.get(f"{self.path}/files/{path}")

    def delete(self) -> None:
        """End it, if it has not ended."""
        assert self.http.delete(self.path).status_code in (200, 404)
