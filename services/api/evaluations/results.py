"""Pages of an evaluation's results, read from its file.

The file is appended to by whole lines while it is read, in the order in which samples finish. A
result's id encodes the offset after its line, so that the next page starts without reading
earlier ones.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import IO

from services.contracts.base import Page
from services.contracts.errors import InvalidRequest
from services.contracts.evaluations import ResultOutcome, SampleResult
from services.core.web.paging import page_of

RESULTS = "results.jsonl"
_RESULT_ID = re.compile(r"evalres-(?P<position>[0-9]{1,15})")


@dataclass(frozen=True)
class ResultFilter:
    """Which results are wanted; a text is looked for in answers, whatever its case."""

    outcome: ResultOutcome | None = None
    text: str | None = None

    def accepts(self, result: SampleResult) -> bool:
        """Whether a result is wanted."""
        if self.outcome is not None and self.outcome != _outcome(result):
            return False
        return self.text is None or self.text.casefold() in (result.answer or "").casefold()


def _outcome(result: SampleResult) -> ResultOutcome:
    if result.correct is None:
        return "failed"
    return "correct" if result.correct else "wrong"


EVERY_RESULT = ResultFilter()


def list_results(
    job_dir: Path, *, after: str | None, limit: int, where: ResultFilter = EVERY_RESULT
) -> Page[SampleResult]:
    """Up to ``limit`` wanted results after ``after``, oldest first."""
    position = _position(after)
    results: list[SampleResult] = []
    try:
        with open(job_dir / RESULTS, "rb") as file:
            _go_to(file, position)
            while len(results) <= limit and (line := file.readline()).endswith(b"\n"):
                position += len(line)
                fields = json.loads(line)
                result = SampleResult(id=f"evalres-{position}", **fields)
                if where.accepts(result):
                    results.append(result)
    except FileNotFoundError:
        if position:
            raise _unknown_result() from None
    return page_of(results[:limit], len(results) > limit)


def read_results(job_dir: Path) -> Iterator[SampleResult]:
    """All complete rows, in the order in which samples finished; none without a file."""
    try:
        with open(job_dir / RESULTS, "rb") as file:
            while (line := file.readline()).endswith(b"\n"):
                yield SampleResult(id="", **json.loads(line))
    except FileNotFoundError:
        return


def _position(after: str | None) -> int:
    if after is None:
        return 0
    match = _RESULT_ID.fullmatch(after)
    if match is None:
        raise _unknown_result()
    return int(match["position"])


def _go_to(file: IO[bytes], position: int) -> None:
    """Seek past the line ending at ``position``."""
    if position == 0:
        return
    if position > file.seek(0, SEEK_END):
        raise _unknown_result()
    file.seek(position - 1)
    if file.read(1) != b"\n":
        raise _unknown_result()


def _unknown_result() -> InvalidRequest:
    return InvalidRequest("not a result of this evaluation", param="after")
