"""Read the task files that RD-Agent publishes: a list of models with their benchmarks."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictInt, StringConstraints, ValidationError

from services.contracts.base import Request
from services.contracts.jobs import GpuIndex, GpuUuid
from services.contracts.validation import first_fault
from temper.submission.submission import SubmissionError

MAX_FILE_BYTES = 1024 * 1024
DEFAULT_CARDS = "0"
DEFAULT_TIMEOUT = "12h"

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_Text = Annotated[str, StringConstraints(min_length=1, max_length=20_000, strip_whitespace=True)]


class CampaignTask(Request):
    """One campaign; what it leaves out comes from the environment file.

    ``gpus`` names GPUs by index or UUID, separated by commas; an empty text names none.
    """

    model: _Text | None = None
    benchmark: _Text | None = None
    gpus: str | None = Field(default=None, max_length=10_000)
    timeout: _Text | None = None
    benchmark_description: _Text | None = None
    scenario: _Text | None = None
    port: StrictInt | None = Field(default=None, ge=1, le=65_535)


class _TaskFile(Request):
    tasks: list[CampaignTask] = Field(min_length=1, max_length=1000)


def read_tasks(path: Path) -> list[CampaignTask]:
    """The tasks of a file; raises `SubmissionError` that names the task and the field."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SubmissionError(f"{path}: {error.strerror or error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise SubmissionError(f"{path}: has more than {MAX_FILE_BYTES >> 20} MiB")
    try:
        return _TaskFile.model_validate_json(content).tasks
    except ValidationError as error:
        raise SubmissionError(f"{path}: {first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """The first problem of a validation, with its place: ``tasks[0].gpus: ...``."""
    fault = first_fault(error)
    where = ""
    for part in fault.location:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
    return f"{where}: {fault.message}" if where else fault.message


def read_duration(text: str) -> float:
    """Seconds of a text such as ``90s``, ``30m``, ``12h`` or ``2d``; raises `ValueError`."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m, 12h or 2d")
    return seconds


def read_cards(text: str) -> list[GpuIndex | GpuUuid]:
    """GPUs such as ``0,1`` or ``GPU-8f...``, by index or UUID; raises `ValueError`."""
    cards: list[GpuIndex | GpuUuid] = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        is_index = name.isascii() and name.isdigit()
        if not is_index and not name.startswith(("GPU-", "MIG-")):
            raise ValueError(f"{name!r} is neither the index of a GPU nor its UUID")
        card = int(name) if is_index else name
        if card in cards:
            raise ValueError(f"{name} is named twice")
        cards.append(card)
    return cards
