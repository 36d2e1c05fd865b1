"""An LLM response, saved to a file as soon as it arrives.

It is saved before anything else is done with it, so that neither a killed worker nor an unavailable
database costs a second call. A call that was in flight is repeated with the same idempotency key,
for endpoints that then return the same response.
"""

import hashlib
import os
from pathlib import Path

from services.inference.chat_answers import ChatAnswer, read_chat
from services.inference.clients.chat import ChatRequest


class KeptAnswer:
    """The file in ``folder`` for the response to one request. ``idempotency_key`` is the same for
    every attempt at the request of one ``place`` in a campaign."""

    def __init__(self, folder: Path, place: str, request: ChatRequest) -> None:
        content = f"{place}\n{request.model_dump_json()}"
        self.idempotency_key = hashlib.sha256(content.encode()).hexdigest()
        self._path = folder / "answers" / f"{self.idempotency_key}.json"

    def read(self) -> ChatAnswer | None:
        """The response, if it has already arrived."""
        try:
            return read_chat(self._path.read_bytes())
        except FileNotFoundError:
            return None

    def write(self, body: bytes) -> None:
        """Save the body of a response durably."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        with partial.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
