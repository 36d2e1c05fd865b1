"""Run index commands in a child process on this machine, without a running stack."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from services.contracts.retrieval.index_messages import MESSAGE_FILE, MODULE, IndexMessage
from temper.client.errors import ClientError, UnexpectedAnswer
from temper.settings import ClientSettings
from temper.stack.server_code import server_command, server_environment
from temper.stack.signals import stop_requested

Answer = TypeVar("Answer", bound=BaseModel)

POLL_SECONDS = 0.1
REPORTS = "reports.jsonl"
RESULT = "result.json"
LOG = "log.txt"
LOG_LINES = 5


class IndexCommandFailed(ClientError):
    """The command failed; ``problems`` lists corpus errors, one line each."""

    def __init__(self, message: str, code: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = problems


class IndexCommandInterrupted(ClientError):
    """The user interrupted the command."""

    code = "interrupted"


class Listener(Protocol):
    """Progress callbacks."""

    def phase(self, name: str) -> None:
        """Start a phase."""

    def progress(self, done: int, total: int) -> None:
        """Update the progress within the phase."""

    def message(self, text: str) -> None:
        """Show a message."""


def run_order(
    order: IndexMessage, into: type[Answer], settings: ClientSettings, listener: Listener
) -> Answer:
    """Start the child, report its progress, and return its result.

    Raises `IndexCommandFailed` with the reason, and `IndexCommandInterrupted` after Ctrl-C or
    SIGTERM, which terminate the child; repeating a build resumes it.
    """
    with TemporaryDirectory(prefix="temper-") as name:
        folder = Path(name)
        (folder / MESSAGE_FILE).write_text(order.model_dump_json())
        with stop_requested() as stop, _process(folder, settings) as process:
            reports = _Reports(folder / REPORTS)
            while not stop.wait(POLL_SECONDS) and process.poll() is None:
                reports.deliver(listener)
            if stop.is_set():
                raise IndexCommandInterrupted("interrupted")
            reports.deliver(listener)
        return _answer(folder, into, reports.problems)


@contextmanager
def _process(folder: Path, settings: ClientSettings) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the child in its own session, so that only the parent receives Ctrl-C."""
    variables = {name: value for name, value in os.environ.items() if name != "TEMPER_API_KEY"}
    with open(folder / LOG, "wb") as log:
        process = subprocess.Popen(
            server_command(MODULE, str(folder), str(os.getpid())),
            env=server_environment({**variables, "TEMPER_HOME": str(settings.home)}),
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
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            process.wait()


class _Reports:
    """The child's reports, each delivered once; ``problems`` collects its errors."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.problems: list[str] = []

    def deliver(self, listener: Listener) -> None:
        """Deliver new reports."""
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
        raise IndexCommandFailed(
            "the index process exited without a result", "process_crashed", log
        ) from None
    result = json.loads(content)
    if result["status"] == "failed":
        error = result["error"]
        raise IndexCommandFailed(error["message"], error["code"], problems)
    try:
        return into.model_validate(result)
    except ValidationError as error:
        raise UnexpectedAnswer(f"the index process returned an invalid result: {error}") from error
