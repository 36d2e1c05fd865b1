"""Reads vLLM's log: the phase of a start, and the cause of a failure."""

import re
from enum import StrEnum
from pathlib import Path

READ_BYTES = 1 << 20
"""Bytes read from a log at once, to bound memory."""
CAUSE_CHARACTERS = 500


class StartupPhase(StrEnum):
    """The phases of a start, in order."""

    IMPORTING = "importing vLLM"
    READING_MODEL = "reading the model's configuration"
    LOADING_WEIGHTS = "loading weights"
    WARMING_UP = "warming up"
    ALLOCATING_CACHE = "allocating the KV cache"
    STARTING_SERVER = "starting the HTTP server"
    READY = "ready"


_MILESTONES = (
    ("non-default args:", StartupPhase.READING_MODEL),
    ("Starting to load model", StartupPhase.LOADING_WEIGHTS),
    ("Loading weights took", StartupPhase.WARMING_UP),
    ("KV cache size:", StartupPhase.ALLOCATING_CACHE),
    ("Starting vLLM server", StartupPhase.STARTING_SERVER),
)
_PREFIX = re.compile(
    r"^(?:\([^()]*\) )?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]+ [\d:]+ \[[^\]]*\] )?"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit): \S")
_ARGUMENT_ERROR = re.compile(r"^\S+\.py: error: ")
# These only refer to a failure elsewhere, and come last.
_WRAPPERS = (
    "See root cause above",
    "See stack trace (above)",
    "due to an exception in a background process",
)
_VALIDATION = re.compile(r"\d+ validation errors? for ")


class LogFollower:
    """Reads lines appended to a log after its creation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._partial = b""

    def new_lines(self) -> list[str]:
        """Return the complete lines since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(READ_BYTES)
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def milestone(line: str) -> StartupPhase | None:
    """Return the phase that a line of the log begins."""
    return next((phase for text, phase in _MILESTONES if text in line), None)


def failure_cause(lines: list[str]) -> str | None:
    """Why vLLM exited, in one line, from the last lines of its log."""
    texts = [_PREFIX.sub("", line).strip() for line in lines]
    causes = [
        _with_detail(texts, index)
        for index, text in enumerate(texts)
        if _EXCEPTION.match(text) and not any(wrapper in text for wrapper in _WRAPPERS)
    ]
    if causes:
        return causes[-1]
    arguments = [text for text in texts if _ARGUMENT_ERROR.match(text)]
    written = arguments or [text for text in texts if text]
    return written[-1][:CAUSE_CHARACTERS] if written else None


def _with_detail(texts: list[str], index: int) -> str:
    """Pydantic gives the reason in the line after the exception."""
    text = texts[index]
    if _VALIDATION.search(text) and index + 1 < len(texts):
        text = f"{text}: {texts[index + 1]}"
    return text[:CAUSE_CHARACTERS]
