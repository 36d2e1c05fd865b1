"""Carrying out an order in the process that works on indexes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.index_messages import MODULE, ORDER, Order
from temper.client.errors import UnexpectedAnswer
from temper.indexing.errors import OrderFailed, OrderInterrupted
from temper.settings import ClientSettings
from temper.stack.signals import stop_requested

Answer = TypeVar("Answer", bound=BaseModel)

POLL_SECONDS = 0.1
REPORTS = "reports.jsonl"
RESULT = "result.json"
LOG = "log.txt"
LOG_LINES = 5


class Listener(Protocol):
    """What hears of the progress of an order."""

    def phase(self, name: str) -> None:
        """A part of the work begins."""

    def progress(self, done: int, total: int) -> None:
        """So much of it is done."""

    def message(self, text: str) -> None:
        """Something worth telling."""


def carry_out(
    order: Order, into: type[Answer], settings: ClientSettings, listener: Listener
) -> Answer:
    """Start the process, follow it, and return its result.

    Raises `OrderFailed` with the reason, and `OrderInterrupted` after Ctrl-C or TERM, on which
    the process is ended: a build goes on from there when it is ordered again.
    """
    with TemporaryDirectory(prefix="temper-") as name:
        folder = Path(name)
        (folder / ORDER).write_text(order.model_dump_json())
        with stop_requested() as stop, _process(folder, settings) as process:
            reports = _Reports(folder / REPORTS)
            while not stop.wait(POLL_SECONDS) and process.poll() is None:
                reports.tell(listener)
            if stop.is_set():
                raise OrderInterrupted("ended before it was done")
            reports.tell(listener)
        return _answer(folder, into, reports.problems)


@contextmanager
def _process(folder: Path, settings: ClientSettings) -> Iterator["subprocess.Popen[bytes]"]:
    """The process, which ends with ours; only we get the Ctrl-C of a terminal."""
    variables = {name: value for name, value in os.environ.items() if name != "TEMPER_API_KEY"}
    with open(folder / LOG, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(folder), str(os.getpid())],
            env={**variables, "TEMPER_HOME": str(settings.home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(settings.grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _Reports:
    """The reports of the process, each told once; ``problems`` are those told as errors."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.problems: list[str] = []

    def tell(self, listener: Listener) -> None:
        """Tell what is new."""
        for report in self._new():
            match report:
                case {"type": "phase", "phase": str(name)}:
                    listener.phase(name)
                case {"type": "progress", "step": int(done), "total_steps": int(total)}:
                    listener.progress(done, total)
                case {"type": "message", "level": "error", "message": str(text)}:
                    self.problems.append(text)
                case {"type": "message", "message": str(text)}:
                    listener.message(text)

    def _new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with open(self._path, "rb") as file:
            file.seek(self._position)
            while (line := file.readline()).endswith(b"\n"):
                self._position += len(line)
                yield json.loads(line)


def _answer(folder: Path, into: type[Answer], problems: list[str]) -> Answer:
    try:
        content = (folder / RESULT).read_bytes()
    except FileNotFoundError:
        log = (folder / LOG).read_text(errors="replace").splitlines()[-LOG_LINES:]
        raise OrderFailed("the process ended without a result", "process_crashed", log) from None
    result = json.loads(content)
    if result["status"] == "failed":
        error = result["error"]
        raise OrderFailed(error["message"], error["code"], problems)
    try:
        return into.model_validate(result)
    except ValidationError as error:
        raise UnexpectedAnswer(f"the result of the order is not one: {error}") from error
