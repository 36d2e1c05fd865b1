"""TensorBoard: an event file in the job's folder, written without TensorBoard's package.

The file is a sequence of records, each a length, a payload and a masked CRC-32C of both (the format
of tf.io.TFRecordWriter); a payload is a protocol buffer of type tensorflow.Event.
"""

import json
import math
import os
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from services.jobs.tracking.tracker import End, Trace, TrackedRun, Tracker

FOLDER = "tensorboard"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types of protocol buffers."""
_STRING = 7
"""DT_STRING of tensorflow.DataType."""


class TensorBoardTracker(Tracker):
    """One event file for all attempts: what was written after the last saved position, or torn by
    a kill, is cut off and written again."""

    def __init__(self) -> None:
        self._file: IO[bytes]

    def start(self, run: TrackedRun, config: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        """Continue the file, or begin one with the configuration as a text."""
        path = Path(run.folder) / FOLDER / f"events.out.tfevents.0000000000.{run.id}"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        self._file = open(path, "rb+")  # noqa: SIM115 - open until the end
        self._file.truncate(min(path.stat().st_size, saved.get("bytes", 0)))
        if not self._file.seek(0, os.SEEK_END):
            self._write(_field(3, b"brain.Event:2"), time.time())
            text = f"```json\n{json.dumps(config, indent=1, ensure_ascii=False)}\n```"
            self._write_text("config", [text], 0)
        self._flush()

    def log(self, step: int, metrics: Mapping[str, float], time: float) -> None:
        """A scalar for each metric."""
        values = b"".join(
            _field(
                1, _field(1, name.encode(errors="replace")) + _number(2, _FIXED32, _float(value))
            )
            for name, value in metrics.items()
        )
        self._write(_integer(2, step) + _field(5, values), time)
        self._flush()

    def traces(self, step: int, items: Sequence[Trace]) -> None:
        """A text for each sample."""
        texts = [
            f"{item.prompt}\n\n---\n\n{item.response}\n\n*reward {item.reward}*" for item in items
        ]
        self._write_text("traces", texts, step)
        self._flush()

    def finish(self, _state: End) -> None:
        """Close the file."""
        self._file.close()

    def _write_text(self, tag: str, texts: Sequence[str], step: int) -> None:
        shape = _field(2, _integer(1, len(texts)))
        strings = b"".join(_field(8, text.encode(errors="replace")) for text in texts)
        tensor = _integer(1, _STRING) + _field(2, shape) + strings
        plugin = _field(1, _field(1, b"text"))
        value = _field(1, tag.encode()) + _field(9, plugin) + _field(8, tensor)
        self._write(_integer(2, step) + _field(5, _field(1, value)), time.time())

    def _write(self, event: bytes, at: float) -> None:
        payload = _number(1, _FIXED64, struct.pack("<d", at)) + event
        length = struct.pack("<Q", len(payload))
        self._file.write(length + _checksum(length) + payload + _checksum(payload))

    def _flush(self) -> None:
        self._file.flush()
        self.saved = {"bytes": self._file.tell()}


def _number(field: int, wire: int, value: bytes) -> bytes:
    return _varint(field << 3 | wire) + value


def _integer(field: int, value: int) -> bytes:
    return _number(field, _VARINT, _varint(value))


def _field(field: int, value: bytes) -> bytes:
    return _number(field, _BYTES, _varint(len(value)) + value)


def _float(value: float) -> bytes:
    """Four bytes; what does not fit is infinite."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, rotated and offset so that a checksum of data with checksums stays meaningful."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)


def _crc_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC = [_crc_of_byte(byte) for byte in range(256)]
