"""The answer to a call of the LLM, kept in a file from the moment it has arrived.

It is there before anything else is done with it, so that a worker that is killed then, or a
database that is away, costs no second call. A call that was under way is made again under the same
idempotency key, for endpoints that then give the answer of the first.
"""

import hashlib
import os
from pathlib import Path

from services.inference.clients.chat import ChatRequest, Completion, read_completion


class KeptAnswer:
    """A place for the answer to one request, in ``folder``.

    ``idempotency_key`` is always the same for the request of one ``place`` in a campaign.
    """

    def __init__(self, folder: Path, place: str, request: ChatRequest) -> None:
        content = f"{place}\n{request.model_dump_json()}"
        self.idempotency_key = hashlib.sha256(content.encode()).hexdigest()
        self._path = folder / "answers" / f"{self.idempotency_key}.json"

    def read(self) -> Completion | None:
        """The answer, if it has arrived before."""
        try:
            return read_completion(self._path.read_bytes())
        except FileNotFoundError:
            return None

    def write(self, body: bytes) -> None:
        """Keep the body of an answer, durably."""
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
