"""The process log of a job, read by byte ranges as it grows."""

import re

from temper.client.errors import ApiError, UnexpectedAnswer
from temper.client.transport import TIME_LIMIT, Transport

LOG = "log.txt"
MOST_BYTES = 1 << 16
_RANGE = re.compile(r"bytes (\d+)-(\d+)/\d+")


class ProcessLog:
    """What the processes of one job print, from at most `MOST_BYTES` before its end on."""

    def __init__(self, transport: Transport, folder: str) -> None:
        self._transport = transport
        self._path = f"{folder}/{LOG}"
        self._end: int | None = None
        self.is_new = True
        """Whether what `read` last returned does not continue what it had returned before."""
        self.is_cut = False
        """Whether `read` last began within the log, so that its first line may lack a beginning."""

    def read(self) -> bytes:
        """Return what was logged since the last call, at most `MOST_BYTES` of it; at first the end
        of the log. A log that was cut short meanwhile is read like a new one."""
        if self._end is not None:
            # From the last byte that is known: if even that is gone, the log was cut short.
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
        """Return where a range begins and its bytes; None where the log has none of it."""
        headers = {"Range": f"bytes={wanted}"}
        try:
            with self._transport.stream(self._path, {}, headers, TIME_LIMIT) as response:
                found = _RANGE.fullmatch(response.headers.get("content-range", ""))
                # An empty log has no ranges.
                if found is None and response.headers.get("content-length") != "0":
                    raise UnexpectedAnswer(f"{self._path} was not answered by its byte range")
                content = response.read()
        except ApiError as error:
            if error.status == 416 or error.code == "artifact_not_found":
                return None
            raise
        return (int(found[1]) if found else 0), content
