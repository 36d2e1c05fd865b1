"""A window that slides over the text of a file."""

import codecs
import re
from typing import BinaryIO

from services.datasets.record import UnreadableFile

_CHUNK_BYTES = 64 * 1024
_BLANKS = re.compile(r"[ \t\r\n]*")


class TextWindow:
    """The UTF-8 text of a file from ``position`` on, as far as it was read."""

    def __init__(self, file: BinaryIO) -> None:
        self.text = ""
        self.position = 0
        self.ended = False
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._lines = 1
        self._columns = 0

    def peek(self) -> str:
        """Move to the next character that is no blank and return it, or "" at the end."""
        while True:
            blanks = _BLANKS.match(self.text, self.position)
            if blanks is not None:
                self.position = blanks.end()
            if self.position < len(self.text):
                return self.text[self.position]
            if self.ended:
                return ""
            self.grow()

    def skip(self, character: str) -> bool:
        """Step over the next character, blanks aside, if it is the given one."""
        if self.peek() != character:
            return False
        self.position += 1
        return True

    def grow(self) -> None:
        """Forget what lies before ``position`` and read as much again as is left, or a chunk."""
        self._forget()
        wanted = max(_CHUNK_BYTES, len(self.text))
        pending = len(self._decoder.getstate()[0])
        offset = self._file.tell() - pending
        chunk = self._file.read(wanted)
        self.ended = len(chunk) < wanted
        try:
            self.text += self._decoder.decode(chunk, self.ended)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            place = f"byte 0x{byte:02x} at offset {offset + error.start}"
            raise UnreadableFile(f"the file is not UTF-8: {place}") from None

    def place(self, position: int | None = None) -> str:
        """Where ``position`` lies in the file, as line and column counted from 1."""
        seen = self.text[: self.position if position is None else position]
        breaks = seen.count("\n")
        columns = len(seen) - seen.rfind("\n") - 1 if breaks else self._columns + len(seen)
        return f"line {self._lines + breaks}, column {columns + 1}"

    def _forget(self) -> None:
        seen = self.text[: self.position]
        breaks = seen.count("\n")
        self._lines += breaks
        self._columns = len(seen) - seen.rfind("\n") - 1 if breaks else self._columns + len(seen)
        self.text = self.text[self.position :]
        self.position = 0
