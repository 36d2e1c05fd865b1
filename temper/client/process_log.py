"""The process log of a job, read by byte ranges as it grows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from temper.client.errors import ApiError, UnexpectedAnswer

if TYPE_CHECKING:
    from temper.client.transport import Transport

LOG = "log.txt"
MOST_BYTES = 1 << 16
_RANGE = re.compile(r"bytes (\d+)-(\d+)/\d+")


class ProcessLog:
    """The output of one job's processes, starting at most `MOST_BYTES` before its end."""

    def __init__(self, transport: Transport, folder: str) -> None:
        self._transport = transport
        self._path = f"{folder}/{LOG}"
        self._end: int | None = None
        self.is_new = True
        """Whether the last `read` does not continue the one before."""
        self.is_cut = False
        """Whether the last `read` started mid-log, so that its first line may be incomplete."""

    def read(self) -> bytes:
        """Return up to `MOST_BYTES` logged since the last call; the first call returns the tail.

        A log that was truncated in between is read like a new one.
        """
        if self._end is not None:
            # Start at the last byte read: if that is gone, the log was truncated.
            begin = self._end - 1
            found = self._range(f"{begin}-{begin + MOST_BYTES}")
            if found is not None:
                self.is_new = self.is_cut = False
                self._end = begin + len(found[1])
                return found[1][1:]
        found = self._range(f"-{MOST_BYTES}")
        if found is None or not found[1]:
            self._end = None
            return b""
        start, content = found
        self.is_new = True
        self.is_cut = start > 0
        self._end = start + len(content)
        return content

    def _range(self, wanted: str) -> tuple[int, bytes] | None:
        """Return a range's start and bytes; None if the log has none of it."""
        from temper.client.transport import TIME_LIMIT

        headers = {"Range": f"bytes={wanted}"}
        try:
            with self._transport.stream(self._path, {}, headers, TIME_LIMIT) as response:
                found = _RANGE.fullmatch(response.headers.get("content-range", ""))
                # An empty file has no ranges.
                if found is None and response.headers.get("content-length") != "0":
                    raise UnexpectedAnswer(f"{self._path} ignored the requested byte range")
                content = response.read()
        except ApiError as error:
            if error.status == 416 or error.code == "artifact_not_found":
                return None
            raise
        return (int(found[1]) if found else 0), content
